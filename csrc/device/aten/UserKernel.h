// Kernels that others have registered for the device: a vendor's functional model of an operator, say. They compute the
// result; the operator keeps its row, and so its time.
#pragma once

#include <string>

namespace simacc {

// Puts a recording kernel over a kernel of somebody else's for one operator ("aten::mm", "vendor::op.out"). False where
// the operator has none, or is recorded already.
bool record_user_kernel(const std::string& full_name);

// The same for every operator, for kernels that came without telling (a library in C++).
void record_user_kernels();

// Takes the recording kernel away again: what was there before computes.
void forget_user_kernel(const std::string& full_name);

}  // namespace simacc
