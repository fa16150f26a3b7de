#include "HostCall.h"

#include "Refusals.h"

namespace simacc {

void HostCall::check_other(const at::Tensor& tensor, size_t position, Use use) const {
  const bool on_host = tensor.device().is_cpu();
  const bool allowed = (use.others == Others::kScalars && on_host && tensor.dim() == 0 && !use.written) ||
      (use.others == Others::kHost && on_host) || (use.others == Others::kAny && (on_host || on_device(tensor)));
  if (!allowed) {
    refuse_other_device(c10::Device(kDeviceType, device()), tensor.device(), op_.argument_name(position), op_.name);
  }
}

void HostCall::refuse_result(const at::Tensor& host_result) const {
  refuse_tensors(host_result.is_quantized() ? "quantized" : c10::str(host_result.layout()), op_.name);
}

}  // namespace simacc
