#include "Alias.h"

#include <ATen/NestedTensorImpl.h>
#include <c10/core/TensorImpl.h>

namespace simacc {
namespace {

// Nested tensors: several shapes in one storage, whose sizes are tensors on the host.
at::Tensor make_nested(c10::Storage storage, c10::DispatchKey key, const c10::TensorImpl& like) {
  const auto& nested = static_cast<const at::native::NestedTensorImpl&>(like);
  const c10::DispatchKeySet keys{c10::DispatchKey::NestedTensor, c10::DispatchKey::AutogradNestedTensor};
  const auto backend_bit = c10::DispatchKeySet(key).raw_repr() & c10::full_backend_mask;
  const c10::DispatchKeySet backend(c10::DispatchKeySet::RAW, backend_bit);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(std::move(storage), keys | backend, like.dtype(),
      nested.get_nested_sizes(), nested.get_nested_strides(), nested.get_storage_offsets());
}

at::Tensor make(c10::Storage storage, c10::DispatchKey key, const c10::TensorImpl& like) {
  if (C10_UNLIKELY(like.is_nested())) {
    return make_nested(std::move(storage), key, like);
  }
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

// As ==, without a call to memcmp for the few numbers that a shape is.
bool same(c10::IntArrayRef a, c10::IntArrayRef b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) {
      return false;
    }
  }
  return true;
}

// Whether a Block's kept view looks like this device tensor, and nobody else holds it or has touched it.
bool stands_for(c10::TensorImpl& view, const c10::TensorImpl& device, const Block& block) {
  return c10::raw::intrusive_ptr::use_count(&view) == 1 && same(view.sizes(), device.sizes()) &&
      same(view.strides(), device.strides()) && view.storage_offset() == device.storage_offset() &&
      view.dtype() == device.dtype() && view.is_conj() == device.is_conj() && view.is_neg() == device.is_neg() &&
      !view.is_wrapped_number() && !device.is_wrapped_number() && view.autograd_meta() == nullptr &&
      view.unsafe_storage().unsafeGetStorageImpl() == block.host.unsafeGetStorageImpl();
}

// Leaves a view with its Block for later calls. Tensors of inference mode would not do outside of it.
void keep(Block& block, at::Tensor view) {
  if (C10_UNLIKELY(view.is_inference() || view.is_nested())) {
    return;
  }
  auto* impl = view.unsafeReleaseTensorImpl();
  c10::TensorImpl* none = nullptr;
  if (!block.view.compare_exchange_strong(none, impl, std::memory_order_acq_rel)) {
    c10::raw::intrusive_ptr::decref(impl);  // another thread was first
  }
}

// A device tensor over a CPU tensor's bytes, in a storage of its own.
at::Tensor wrap(at::Tensor cpu_tensor, c10::DeviceIndex device) {
  auto storage = adopt(cpu_tensor.storage(), device);
  Block& block = *block_of(*storage.unsafeGetStorageImpl());
  auto out = make(std::move(storage), c10::DispatchKey::PrivateUse1, *cpu_tensor.unsafeGetTensorImpl());
  keep(block, std::move(cpu_tensor));
  return out;
}

}  // namespace

at::Tensor host_view(const at::Tensor& device_tensor) {
  const auto& impl = *device_tensor.unsafeGetTensorImpl();
  Block* block = block_of(impl);
  if (C10_UNLIKELY(block == nullptr || impl.is_nested())) {
    return own_host_view(device_tensor);
  }
  auto* kept = block->view.load(std::memory_order_acquire);
  if (C10_LIKELY(kept != nullptr && stands_for(*kept, impl, *block))) {
    return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::unsafe_reclaim_from_nonowning(kept));
  }
  auto out = own_host_view(device_tensor);
  if (kept == nullptr && !impl.is_wrapped_number()) {
    keep(*block, out);
  }
  return out;
}

at::Tensor own_host_view(const at::Tensor& device_tensor) {
  const auto& impl = *device_tensor.unsafeGetTensorImpl();
  auto out = make(host_storage(*impl.unsafe_storage().unsafeGetStorageImpl()), c10::DispatchKey::CPU, impl);
  if (C10_UNLIKELY(impl.is_wrapped_number())) {
    out.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return out;
}

at::Tensor host_window(const at::Tensor& device_tensor) {
  const auto& impl = *device_tensor.unsafeGetTensorImpl();
  auto* kept = new c10::Storage(impl.unsafe_storage());
  c10::DataPtr bytes(kept->mutable_data(), kept, [](void* p) { delete static_cast<c10::Storage*>(p); }, c10::kCPU);
  c10::Storage window(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), kept->nbytes(),
      std::move(bytes), /*allocator=*/nullptr, /*resizable=*/false));
  return make(std::move(window), c10::DispatchKey::CPU, impl);
}

at::Tensor wrap_fresh(at::Tensor cpu_tensor, c10::DeviceIndex device) {
  auto* impl = cpu_tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(cpu_tensor.use_count() != 1 || impl->autograd_meta() != nullptr)) {
    return wrap(std::move(cpu_tensor), device);
  }
  auto storage = adopt(cpu_tensor.storage(), device);
  impl->_change_backend_component_keys(storage.device());
  impl->set_storage_keep_dtype(std::move(storage));
  return cpu_tensor;
}

at::Tensor wrap_in(c10::Storage storage, const at::Tensor& cpu_tensor) {
  return make(std::move(storage), c10::DispatchKey::PrivateUse1, *cpu_tensor.unsafeGetTensorImpl());
}

void adopt_layout(const at::Tensor& device_tensor, const at::Tensor& changed_alias) {
  auto* device_impl = device_tensor.unsafeGetTensorImpl();
  const auto& cpu_impl = *changed_alias.unsafeGetTensorImpl();
  refresh(*device_impl->unsafe_storage().unsafeGetStorageImpl());
  if (C10_UNLIKELY(device_impl->is_nested())) {
    return;  // its sizes never change
  }
  if (C10_UNLIKELY(device_impl->is_conj() != cpu_impl.is_conj())) {  // a solver's way to conjugate its result
    device_impl->_set_conj(cpu_impl.is_conj());
  }
  if (device_impl->sizes() != cpu_impl.sizes() || device_impl->strides() != cpu_impl.strides() ||
      device_impl->storage_offset() != cpu_impl.storage_offset()) {
    device_impl->set_sizes_and_strides(cpu_impl.sizes(), cpu_impl.strides(), cpu_impl.storage_offset());
  }
}

}  // namespace simacc
