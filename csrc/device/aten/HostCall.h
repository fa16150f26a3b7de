// One operator computed on the host, in three parts. Before the kernel: device tensors become CPU aliases, and the
// call's signature grows. The kernel: below the keys that a device call has passed. After it: results become device
// tensors, and the call is recorded. Boxed.cpp, Typed.h and OnHost.h differ in how they get at arguments, and in nothing
// that is here.
#pragma once

#include "../recorder/Recorder.h"
#include "../runtime/Autograd.h"
#include "../runtime/HostLimit.h"
#include "Alias.h"
#include "Operator.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <optional>
#include <utility>

namespace simacc {

// Keys that sit above the CPU kernels; a device call has already passed its own.
inline const c10::DispatchKeySet kAboveKernels =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

class HostCall {
 public:
  // Which tensors of other devices an argument may be.
  enum class Others : uint8_t {
    kNone,
    kScalars,  // on the host, of no dimensions: PyTorch's numbers
    kHost,     // any on the host: indices and the like
    kAny,      // also on another simacc device: what is copied
  };
  struct Use {
    bool read = true;     // its contents are an input
    bool written = false;  // the kernel may change its contents or layout
    Others others = Others::kScalars;
  };

  // `as` is what the call is recorded as; null: it is not. `argument` gives the call's argument at a position as an
  // IValue, and is asked only where the cost rule reads attributes.
  template <class Argument>
  HostCall(const Operator& op, const OpInfo* as, Argument argument)
      : op_(op), recorder_(as == nullptr ? nullptr : Recorder::current()) {
    if (C10_LIKELY(recorder_ != nullptr)) {
      call_.emplace(*as);
      if (C10_UNLIKELY(!as->attributes.empty())) {
        add_attributes(*as, argument);
      }
    }
  }

  // The device that results go to, where no argument has told yet.
  void go_to(c10::DeviceIndex device) {
    device_ = device;
  }
  c10::DeviceIndex device() const {
    return device_ < 0 ? current_device() : device_;
  }

  // The CPU tensor that stands in for an argument. Undefined tensors stay.
  at::Tensor before(const at::Tensor& tensor, size_t position, Use use) {
    if (C10_UNLIKELY(!tensor.defined())) {
      return tensor;
    }
    const auto where = tensor.device();
    if (C10_UNLIKELY(where.type() != kDeviceType || (device_ >= 0 && where.index() != device_))) {
      check_other(tensor, position, use);
      if (where.type() != kDeviceType) {
        return tensor;
      }
    }
    if (device_ < 0) {
      device_ = where.index();
    }
    const auto& impl = *tensor.unsafeGetTensorImpl();
    if (call_ && use.read) {
      call_->input(impl, mark_of(impl));
    }
    return use.written ? own_host_view(tensor) : host_view(tensor);
  }

  // The same without a stand-in, for a kernel that takes device tensors.
  void input(const at::Tensor& tensor, bool read) {
    if (tensor.device().type() == kDeviceType) {
      if (device_ < 0) {
        device_ = tensor.device().index();
      }
      if (call_ && read) {
        const auto& impl = *tensor.unsafeGetTensorImpl();
        call_->input(impl, mark_of(impl));
      }
    }
  }

  template <class Kernel>
  auto compute(Kernel&& kernel) const -> decltype(kernel()) {
    follow_thread_setting();
    const c10::impl::ExcludeDispatchKeyGuard below(kAboveKernels);
    const HostLimitScope limit;
    return kernel();
  }

  // A result that the kernel has made, as a device tensor; undefined ones stay.
  at::Tensor after(at::Tensor host_result) {
    if (C10_UNLIKELY(!host_result.defined())) {
      return host_result;
    }
    if (C10_UNLIKELY(host_result.layout() != c10::kStrided || host_result.is_quantized())) {
      refuse_result(host_result);
    }
    at::Tensor out = wrap_fresh(std::move(host_result), device());
    output(out);
    return out;
  }
  // An output that is a device tensor already: an argument that was written, or a view.
  void output(const at::Tensor& device_tensor) {
    if (call_) {
      const auto& impl = *device_tensor.unsafeGetTensorImpl();
      call_->output(impl, mark_of(impl));
    }
  }

  // Ends the call; `synchronizes` where the host needs a value or a size that only the data tells.
  void record(bool synchronizes = false) {
    if (call_) {
      recorder_->record(*call_, device(), synchronizes);
    }
  }

 private:
  // Boxing is much code for few calls: out of the way of all others.
  template <class Argument>
  [[gnu::noinline, gnu::cold]] void add_attributes(const OpInfo& as, const Argument& argument) {
    for (const auto& attribute : as.attributes) {
      call_->attribute(argument(attribute.argument));
    }
  }

  // Raises, with PyTorch's words, unless the argument may be a tensor of another device.
  void check_other(const at::Tensor& tensor, size_t position, Use use) const;
  [[noreturn]] void refuse_result(const at::Tensor& host_result) const;

  const Operator& op_;
  Recorder* const recorder_;
  std::optional<Call> call_;
  c10::DeviceIndex device_ = -1;  // not known yet
};

}  // namespace simacc
