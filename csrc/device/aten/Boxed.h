// One boxed kernel per operator that has a CPU kernel, registered when the device is initialised,
// and the fallback for operators that come later (torchvision, torch.library).
#pragma once

namespace simacc {

// Once per process, before the first tensor; callbacks are there.
void register_kernels();

}  // namespace simacc
