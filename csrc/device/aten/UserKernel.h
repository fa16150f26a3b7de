// Kernels that others have registered for the device: a vendor's functional model of an operator, say. They compute the
// result; the operator keeps its row, and so its time.
#pragma once

#include <cstdint>
#include <string>

namespace simacc {

// Puts a recording kernel over the kernel that somebody else has registered last for one operator ("aten::mm",
// "vendor::op.out"). Its number; 0 where there is none, or where it is recorded already.
int64_t record_user_kernel(const std::string& full_name);

// The same for every operator, for kernels that came without telling (a library in C++).
void record_user_kernels();

// Takes that recording kernel away again: what is below it computes.
void forget_user_kernel(int64_t number);

}  // namespace simacc
