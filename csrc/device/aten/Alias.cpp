#include "Alias.h"

#include <c10/core/TensorImpl.h>

namespace simacc {
namespace {

at::Tensor make(c10::Storage storage, c10::DispatchKey key, const c10::TensorImpl& like) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (C10_UNLIKELY(like.is_conj())) {
    impl->_set_conj(true);
  }
  if (C10_UNLIKELY(like.is_neg())) {
    impl->_set_neg(true);
  }
  return tensor;
}

}  // namespace

at::Tensor host_view(const at::Tensor& device_tensor) {
  const auto& impl = *device_tensor.unsafeGetTensorImpl();
  auto out = make(host_storage(*impl.unsafe_storage().unsafeGetStorageImpl()), c10::DispatchKey::CPU, impl);
  if (C10_UNLIKELY(impl.is_wrapped_number())) {
    out.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return out;
}

at::Tensor wrap(const at::Tensor& cpu_tensor, c10::DeviceIndex device) {
  TORCH_CHECK_NOT_IMPLEMENTED(cpu_tensor.layout() == c10::kStrided && !cpu_tensor.is_quantized(),
      "simacc has no ", cpu_tensor.is_quantized() ? "quantized" : c10::str(cpu_tensor.layout()),
      " tensors; run this operator on the CPU (.cpu()) and move the dense result back");
  const auto& impl = *cpu_tensor.unsafeGetTensorImpl();
  return make(adopt(cpu_tensor.storage(), device), c10::DispatchKey::PrivateUse1, impl);
}

at::Tensor wrap_in(c10::Storage storage, const at::Tensor& cpu_tensor) {
  return make(std::move(storage), c10::DispatchKey::PrivateUse1, *cpu_tensor.unsafeGetTensorImpl());
}

void adopt_layout(const at::Tensor& device_tensor, const at::Tensor& changed_alias) {
  auto* device_impl = device_tensor.unsafeGetTensorImpl();
  const auto& cpu_impl = *changed_alias.unsafeGetTensorImpl();
  refresh(*device_impl->unsafe_storage().unsafeGetStorageImpl());
  if (device_impl->sizes() != cpu_impl.sizes() || device_impl->strides() != cpu_impl.strides() ||
      device_impl->storage_offset() != cpu_impl.storage_offset()) {
    device_impl->set_sizes_and_strides(cpu_impl.sizes(), cpu_impl.strides(), cpu_impl.storage_offset());
  }
}

}  // namespace simacc
