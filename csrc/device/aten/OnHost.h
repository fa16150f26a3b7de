// A kernel written here: a function of CPU tensors, run on aliases, recorded as one operator.
#pragma once

#include "../recorder/Recorder.h"
#include "../runtime/HostLimit.h"
#include "Alias.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <initializer_list>
#include <vector>

namespace simacc {

// Calls `compute` with the inputs' CPU aliases (undefined stays undefined) and gives its results,
// which are new tensors or undefined, to the device.
template <class Compute>
std::vector<at::Tensor> on_host(const OpInfo& op, std::initializer_list<at::Tensor> inputs, Compute compute) {
  std::vector<at::Tensor> aliases, outputs;
  for (const auto& t : inputs) {
    TORCH_CHECK(!t.defined() || on_device(t), "Expected all tensors to be on the same device, but found at least two devices, simacc:0 and ",
        t.device().str(), "! (when checking arguments in method ", op.name, ")");
    aliases.push_back(t.defined() ? host_view(t) : t);
  }
  {
    const c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    const HostLimitScope limit;
    outputs = compute(aliases);
  }
  for (auto& t : outputs) {
    t = t.defined() ? wrap(t, 0) : t;
  }
  if (auto* recorder = Recorder::current()) {
    Call call(op);
    for (const auto& t : inputs) {
      if (t.defined()) {
        call.input(*t.unsafeGetTensorImpl());
      }
    }
    for (const auto& t : outputs) {
      if (t.defined()) {
        call.output(*t.unsafeGetTensorImpl());
      }
    }
    recorder->record(call);
  }
  return outputs;
}

}  // namespace simacc
