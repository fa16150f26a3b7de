// The autograd engine's thread of a device, which a CPU program does not have.
#pragma once

namespace simacc {

// Returns when the engine's device threads have let go of every backward pass that has ended, and hold no Python
// object any more. To be called without the interpreter's lock, before Python finalizes.
void settle_autograd();

// Lets backward passes run on devices that are new since the engine began. Where it has not begun, nothing is to be done;
// to be called in a process that has the engine's threads, not in one that was forked.
void follow_devices_in_autograd();

}  // namespace simacc
