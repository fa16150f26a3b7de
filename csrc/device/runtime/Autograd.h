// The autograd engine's thread of a device, which a CPU program does not have.
#pragma once

namespace simacc {

// Returns when the engine's device threads have let go of every backward pass that has ended, and hold no Python
// object any more. To be called without the interpreter's lock, before Python finalizes.
void settle_autograd();

}  // namespace simacc
