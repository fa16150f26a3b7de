// Whether PyTorch's generic code is told of the device. A program that never names simacc has the library loaded all
// the same, and must not get autograd threads (after which a fork can't run a backward pass) or pinned memory from it.
#pragma once

#include <c10/core/Device.h>

namespace simacc {

// Whether the program has named the device or asked for an accelerator.
bool announced();

// The number of devices that PyTorch is told of: none before the announcement.
c10::DeviceIndex announced_devices();

// From now on PyTorch is told. `late`: the library was loaded after PyTorch, so that nothing is known of what autograd
// did before. Called without the interpreter's lock, by one thread at a time; again, it does nothing.
void announce(bool late);

}  // namespace simacc
