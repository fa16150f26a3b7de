// A kernel written here: a function of CPU tensors, run on aliases, recorded as one operator.
#pragma once

#include "HostCall.h"

#include <ATen/core/boxing/impl/boxing.h>

#include <initializer_list>
#include <vector>

namespace simacc {

// Calls `compute` with the CPU aliases of `inputs`, the first arguments of the operator's schema (undefined stays
// undefined), and gives its results, which are new tensors or undefined, to the device. `arguments` are all that the
// kernel was called with.
template <class Compute, class... Arguments>
std::vector<at::Tensor> on_host(
    const Operator& op, std::initializer_list<at::Tensor> inputs, Compute compute, const Arguments&... arguments) {
  HostCall call(op, &op.info(), [&](size_t i) { return c10::impl::boxArgs<Arguments...>(arguments...).at(i); });
  std::vector<at::Tensor> aliases;
  for (const auto& input : inputs) {
    aliases.push_back(call.before(input, aliases.size(), {.others = HostCall::Others::kNone}));
  }
  auto outputs = call.compute([&] { return compute(aliases); });
  for (auto& output : outputs) {
    output = call.after(std::move(output));
  }
  call.record();
  return outputs;
}

}  // namespace simacc
