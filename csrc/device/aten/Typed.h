// Kernels that keep C++ types: for the operators that small programs are made of, boxing arguments
// costs as much as the rest of the call. Same rules as Boxed.cpp, written once as a template over an
// operator's generated descriptor (at::_ops::add_Tensor and the like).
#pragma once

#include "../recorder/Recorder.h"
#include "../runtime/HostLimit.h"
#include "Alias.h"
#include "Plan.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace simacc {

// Keys that sit above the CPU kernels; a device call has already passed its own.
inline const c10::DispatchKeySet kAboveKernels =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

// Raises PyTorch's own message for a tensor that is on neither this device nor a scalar on the host; a
// scalar that is written must be on the device too.
void check_host_scalar(const at::Tensor& tensor, const Plan& plan, c10::DeviceIndex device, bool written = false);

// One argument on its way to the host. Anything but a tensor passes through.
template <class T>
struct Passed {
  T value;
  Passed(T given, const Plan&, Call*) : value(std::forward<T>(given)) {}
  T host() {
    return std::forward<T>(value);
  }
  void finish() {}
};

inline at::Tensor to_host(const at::Tensor& tensor, const Plan& plan, Call* call, bool written = false) {
  if (!tensor.defined()) {
    return tensor;
  }
  if (C10_UNLIKELY(!on_device(tensor))) {
    check_host_scalar(tensor, plan, 0);
    return tensor;
  }
  if (call != nullptr) {
    call->input(*tensor.unsafeGetTensorImpl());
  }
  return written ? own_host_view(tensor) : host_view(tensor);
}

template <>
struct Passed<const at::Tensor&> {
  at::Tensor stand_in;
  Passed(const at::Tensor& given, const Plan& plan, Call* call) : stand_in(to_host(given, plan, call)) {}
  const at::Tensor& host() {
    return stand_in;
  }
  void finish() {}
};

// A tensor that the operator updates in place.
template <>
struct Passed<at::Tensor&> {
  at::Tensor& original;
  at::Tensor stand_in;
  Passed(at::Tensor& given, const Plan& plan, Call* call) : original(given), stand_in(checked(given, plan, call)) {}
  at::Tensor& host() {
    return stand_in;
  }
  void finish() {
    adopt_layout(original, stand_in);
  }
  static at::Tensor checked(const at::Tensor& given, const Plan& plan, Call* call) {
    if (C10_UNLIKELY(!on_device(given))) {
      check_host_scalar(given, plan, 0, /*written=*/true);
    }
    return to_host(given, plan, call, /*written=*/true);
  }
};

template <>
struct Passed<const std::optional<at::Tensor>&> {
  std::optional<at::Tensor> stand_in;
  Passed(const std::optional<at::Tensor>& given, const Plan& plan, Call* call)
      : stand_in(given ? std::optional(to_host(*given, plan, call)) : std::nullopt) {}
  const std::optional<at::Tensor>& host() {
    return stand_in;
  }
  void finish() {}
};

inline at::Tensor to_device(at::Tensor host_result, Call* call) {
  if (!host_result.defined()) {
    return host_result;
  }
  at::Tensor out = wrap_fresh(std::move(host_result), 0);
  if (call != nullptr) {
    call->output(*out.unsafeGetTensorImpl());
  }
  return out;
}

template <class Op, class Schema = typename Op::schema>
struct Typed;

template <class Op, class Ret, class... Args>
struct Typed<Op, Ret(Args...)> {
  inline static const Plan* plan = nullptr;

  static Ret kernel(Args... args) {
    auto* recorder = Recorder::current();
    std::optional<Call> call;
    if (C10_LIKELY(recorder != nullptr)) {
      call.emplace(plan->info);
    }
    Call* key = call ? &*call : nullptr;
    std::tuple<Passed<Args>...> passed{Passed<Args>(std::forward<Args>(args), *plan, key)...};
    if constexpr (std::is_same_v<Ret, at::Tensor&>) {
      run(passed);
      at::Tensor& self = std::get<0>(passed).original;
      std::apply([](auto&... p) { (p.finish(), ...); }, passed);
      if (key != nullptr) {
        key->output(*self.unsafeGetTensorImpl());
        recorder->record(*key);
      }
      return self;
    } else {
      Ret out = results(run(passed), key);
      if (key != nullptr) {
        recorder->record(*key);
      }
      return out;
    }
  }

 private:
  static Ret run(std::tuple<Passed<Args>...>& passed) {
    const c10::impl::ExcludeDispatchKeyGuard below(kAboveKernels);
    const HostLimitScope limit;
    return std::apply(
        [](auto&... p) -> Ret { return Op::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), p.host()...); }, passed);
  }

  static at::Tensor results(at::Tensor out, Call* call) {
    return to_device(std::move(out), call);
  }

  template <class... T>
  static std::tuple<T...> results(std::tuple<T...> out, Call* call) {
    return std::apply([&](auto&... t) { return std::tuple<T...>{to_device(std::move(t), call)...}; }, out);
  }
};

// Registers a typed kernel where the operator's cost rule reads no attributes; tells whether it did.
using RegisterTyped = bool (*)(torch::Library& library, const c10::OperatorName& name, const Plan* plan);

// The operators that have one, by full name ("aten::add.Tensor").
const std::vector<std::pair<std::string, RegisterTyped>>& typed_kernels();

}  // namespace simacc
