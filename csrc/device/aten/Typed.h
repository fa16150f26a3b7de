// Kernels that keep C++ types: for the operators that small programs are made of, boxing arguments
// costs as much as the rest of the call. Written once as a template over an operator's generated
// descriptor (at::_ops::add_Tensor and the like).
#pragma once

#include "HostCall.h"
#include "Plan.h"

#include <ATen/core/boxing/impl/boxing.h>

#include <tuple>
#include <type_traits>

namespace simacc {

// One argument on its way to the host. Anything but a tensor passes through.
template <class T>
struct Passed {
  T value;
  Passed(T argument, HostCall&, size_t) : value(std::forward<T>(argument)) {}
  T host() {
    return std::forward<T>(value);
  }
};

template <>
struct Passed<const at::Tensor&> {
  at::Tensor stand_in;
  Passed(const at::Tensor& argument, HostCall& call, size_t position) : stand_in(call.before(argument, position, {})) {}
  const at::Tensor& host() {
    return stand_in;
  }
};

// A tensor that the operator updates in place.
template <>
struct Passed<at::Tensor&> {
  at::Tensor& original;
  at::Tensor stand_in;
  Passed(at::Tensor& argument, HostCall& call, size_t position)
      : original(argument), stand_in(call.before(argument, position, {.written = true})) {}
  at::Tensor& host() {
    return stand_in;
  }
};

template <>
struct Passed<const std::optional<at::Tensor>&> {
  std::optional<at::Tensor> stand_in;
  Passed(const std::optional<at::Tensor>& argument, HostCall& call, size_t position)
      : stand_in(argument ? std::optional(call.before(*argument, position, {})) : std::nullopt) {}
  const std::optional<at::Tensor>& host() {
    return stand_in;
  }
};

template <class Op, class Schema = typename Op::schema>
struct Typed;

template <class Op, class Ret, class... Args>
struct Typed<Op, Ret(Args...)> {
  inline static const Plan* plan = nullptr;

  static Ret kernel(Args... args) {
    return run(std::index_sequence_for<Args...>{}, std::forward<Args>(args)...);
  }

 private:
  template <size_t... I>
  static Ret run(std::index_sequence<I...>, Args... args) {
    HostCall call(plan->op, &plan->op.info(),
        [&](size_t i) { return c10::impl::boxArgs<std::decay_t<Args>...>(args...).at(i); });
    std::tuple<Passed<Args>...> passed{Passed<Args>(std::forward<Args>(args), call, I)...};
    const auto redispatch = [&]() -> Ret {
      return Op::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), std::get<I>(passed).host()...);
    };
    if constexpr (std::is_same_v<Ret, at::Tensor&>) {
      call.compute(redispatch);
      auto& self = std::get<0>(passed);
      adopt_layout(self.original, self.stand_in);
      call.output(self.original);
      call.record();
      return self.original;
    } else {
      Ret out = results(call, call.compute(redispatch));
      call.record();
      return out;
    }
  }

  static at::Tensor results(HostCall& call, at::Tensor out) {
    return call.after(std::move(out));
  }

  template <class... T>
  static std::tuple<T...> results(HostCall& call, std::tuple<T...> out) {
    return std::apply([&](auto&... t) { return std::tuple<T...>{call.after(std::move(t))...}; }, out);
  }
};

using RegisterTyped = void (*)(torch::Library& library, const c10::OperatorName& name, const Plan* plan);

// The operators that have a typed kernel, by full name ("aten::add.Tensor"), and what registers it.
const std::vector<std::pair<std::string, RegisterTyped>>& typed_kernels();

}  // namespace simacc
