#pragma once

namespace simacc {

// Tells PyTorch that the device exists. Called once.
void register_hooks();

}  // namespace simacc
