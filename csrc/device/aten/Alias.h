// Device tensors seen as CPU tensors over the same bytes, and back.
#pragma once

#include "../runtime/Block.h"

#include <ATen/core/Tensor.h>

namespace simacc {

// A CPU tensor over a device tensor's bytes: sizes, strides, offset, conjugate and negative bits kept. For reading:
// it may be the one that the Block keeps, and comes again with the next call.
at::Tensor host_view(const at::Tensor& device_tensor);

// The same, made for this call alone: a kernel may change its layout.
at::Tensor own_host_view(const at::Tensor& device_tensor);

// A CPU tensor over a device tensor's bytes that a program may keep: it keeps the device's storage, which stays charged,
// and cannot be resized.
at::Tensor host_window(const at::Tensor& device_tensor);

// A device tensor over the bytes of a dense tensor that a kernel has just made, in a storage of its own; where nobody
// else holds that tensor, it becomes the device tensor itself.
at::Tensor wrap_fresh(at::Tensor cpu_tensor, c10::DeviceIndex device);

// A device tensor over `storage`, laid out as `cpu_tensor`.
at::Tensor wrap_in(c10::Storage storage, const at::Tensor& cpu_tensor);

// After a kernel changed the layout or storage size of an alias: make the device tensor match.
void adopt_layout(const at::Tensor& device_tensor, const at::Tensor& changed_alias);

inline bool on_device(const at::Tensor& t) {
  return t.device().type() == kDeviceType;
}

}  // namespace simacc
