// What must exist to make, view and copy a tensor. Everything else is in Boxed.cpp.
#include "../recorder/Launches.h"
#include "HostCall.h"
#include "Refusals.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <map>
#include <mutex>

namespace simacc {
namespace {

using at::Tensor;
using std::optional;

const Operator kCopy("aten::copy_");
const OpInfo kCopyToDevice{"simacc.copy_to_device"};
const OpInfo kCopyToHost{"simacc.copy_to_host"};
// In the source's queue; its attribute is the device that the copy goes to, whose queue it occupies too.
const OpInfo kCopyBetweenDevices{"simacc.copy_between_devices", {{0, "to_device"}}, {"to_device"}};

// The device that a factory makes its tensor on.
c10::DeviceIndex checked_factory(
    const char* op, c10::ScalarType dtype, optional<c10::Layout> layout, optional<c10::Device> device) {
  if (layout.value_or(c10::kStrided) != c10::kStrided) {
    refuse_tensors(c10::str(*layout), op);
  }
  if (c10::isQIntType(dtype)) {
    refuse_tensors("quantized", op);
  }
  return index_or_current(device ? device->index() : -1);
}

// Memory as it was, or filled where torch.use_deterministic_algorithms asks for it.
Tensor as_asked(Tensor fresh) {
  const auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(fresh);
  }
  return fresh;
}

Tensor empty(c10::IntArrayRef size, optional<c10::ScalarType> dtype, optional<c10::Layout> layout,
    optional<c10::Device> device, optional<bool>, optional<c10::MemoryFormat> memory_format) {
  const auto type = c10::dtype_or_default(dtype);
  const DeviceScope scope(checked_factory("aten.empty", type, layout, device));
  return as_asked(at::detail::empty_generic(
      size, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type, memory_format));
}

Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, optional<c10::ScalarType> dtype,
    optional<c10::Layout> layout, optional<c10::Device> device, optional<bool>) {
  const auto type = c10::dtype_or_default(dtype);
  const DeviceScope scope(checked_factory("aten.empty_strided", type, layout, device));
  return as_asked(at::detail::empty_strided_generic(
      size, stride, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type));
}

// The zero tensor of forward-mode AD: no bytes behind it. PyTorch's arithmetic on it keeps it so (and its sign: 0 times
// -1 is no -0), and everything else is given real zeros first.
Tensor efficient_zero_tensor(c10::IntArrayRef size, optional<c10::ScalarType> dtype, optional<c10::Layout>,
    optional<c10::Device> device, optional<bool>) {
  const auto index = index_or_current(device ? device->index() : -1);
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, at::native::ZeroTensorAllocator> allocators;  // a storage points at its own
  const std::lock_guard<std::mutex> lock(mutex);
  auto& allocator = allocators.try_emplace(index, c10::Device(kDeviceType, index)).first->second;
  constexpr c10::DispatchKeySet keys{c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor};
  return at::detail::empty_generic(size, &allocator, keys, c10::dtype_or_default(dtype), std::nullopt);
}

// Copies between devices, recorded as what the link or the memory does.
Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  const bool from_device = on_device(self), to_device = on_device(dst);
  TORCH_CHECK((from_device || self.device().is_cpu()) && (to_device || dst.device().is_cpu()),
      "simacc copies to and from the CPU only, got ", self.device(), " to ", dst.device());
  const bool between = from_device && to_device && self.device() != dst.device();
  const OpInfo& as = between ? kCopyBetweenDevices
      : from_device && to_device ? kCopy.info()
      : from_device ? kCopyToHost : kCopyToDevice;
  HostCall call(kCopy, &as, [&](size_t i) {
    return between ? c10::IValue(static_cast<int64_t>(dst.device().index()))
                   : c10::impl::boxArgs(dst, self, non_blocking).at(i);  // as copy_'s
  });
  const Tensor source = call.before(self, 1, {.others = HostCall::Others::kAny});
  const Tensor target = call.before(dst, 0, {.read = false, .written = true, .others = HostCall::Others::kAny});
  call.compute([&] { target.copy_(source); });
  if (to_device) {
    call.output(dst);
  }
  call.record(/*synchronizes=*/!to_device && !non_blocking);
  return dst;
}

// What aten::copy_ calls for devices that PyTorch does not know.
Tensor copy_from_step(const Tensor& self, const Tensor& dst, bool non_blocking) {
  const InCallingOperator copy;
  return copy_from(self, dst, non_blocking);
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  dst.resize_(self.sizes());
  return copy_from(self, dst, /*non_blocking=*/false);
}

Tensor& set_empty(Tensor& self) {
  const DeviceScope scope(self.device().index());
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, device_allocator()->allocate(0), device_allocator(), true));
  return at::native::set_storage_cpu_(self, std::move(storage), 0, {0}, {});
}

void record_stream(Tensor&, c10::Stream) {}  // memory is freed in program order

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", copy_from_step);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_efficientzerotensor", efficient_zero_tensor);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("record_stream", record_stream);
  m.impl("set_", set_empty);
  m.impl("set_.source_Storage", [](Tensor& self, at::Storage source) -> Tensor& { return at::native::set_(self, source); });
  m.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("unfold", at::native::unfold);
  m.impl("view", at::native::view);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("view_as_real", at::native::view_as_real);
}

// Without these the conjugate and negative fallbacks would resolve a copy by copying, for ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace simacc
