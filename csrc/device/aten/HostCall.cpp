#include "HostCall.h"

namespace simacc {

void HostCall::check_other(const at::Tensor& tensor, size_t position, Use use) const {
  const bool on_host = tensor.device().is_cpu();
  const bool allowed = (use.others == Others::kScalars && on_host && tensor.dim() == 0 && !use.written) ||
      (use.others == Others::kHost && (on_host || on_device(tensor)));
  TORCH_CHECK(allowed, "Expected all tensors to be on the same device, but found at least two devices, ",
      c10::Device(kDeviceType, device()), " and ", tensor.device(), "! (when checking argument for argument ",
      op_.argument_name(position), " in method ", op_.name, ")");
}

}  // namespace simacc
