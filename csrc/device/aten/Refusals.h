// What kernels refuse, each with one message, whichever road a call has come.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace simacc {

// An argument on another device than the call's, in PyTorch's own words.
[[noreturn]] void refuse_other_device(
    c10::Device device, c10::Device other, const std::string& argument, const std::string& op);

// Tensors of a kind that the device has not: "quantized", or a layout's name (all sparse ones are "sparse").
[[noreturn]] void refuse_tensors(const std::string& kind, const std::string& op);

// An operator that nothing on the host computes; `kind`, with a space behind it, where only tensors of that kind lack it.
[[noreturn]] void refuse_operator(const std::string& op, const std::string& kind);

}  // namespace simacc
