// Operators that need more than a CPU kernel run in place: attention's choice of kernel, dropout's
// generator.
#include "../recorder/Recorder.h"
#include "../runtime/Generator.h"
#include "Alias.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

namespace simacc {
namespace {

using at::Tensor;

const OpInfo kNativeDropout{"aten.native_dropout", {}};

Tensor alias_with_grad(const Tensor& t) {
  if (!t.defined() || !on_device(t)) {
    return t;
  }
  Tensor out = host_view(t);
  out.set_requires_grad(t.requires_grad());
  return out;
}

// Which fused attention a CPU would take; without this, attention falls apart into bmm and softmax.
int64_t fused_sdp_choice(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
    double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  const std::optional<Tensor> host_mask = mask ? std::optional(alias_with_grad(*mask)) : std::nullopt;
  return at::_fused_sdp_choice(alias_with_grad(query), alias_with_grad(key), alias_with_grad(value), host_mask, dropout_p,
      is_causal, scale, enable_gqa);
}

// PyTorch's CPU kernel draws from the CPU's default generator; this one draws from the device's.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  const auto device = input.device().index();
  Tensor output, mask;
  {
    const c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    const Tensor in = host_view(input);
    if (train.value_or(true)) {
      const double keep = 1 - p;
      mask = at::empty_like(in, in.options().dtype(at::kBool)).bernoulli_(keep, host_generator({}, device));
      output = in.mul(mask).mul_(keep == 0 ? 0. : 1. / keep);
    } else {
      mask = at::ones_like(in, in.options().dtype(at::kBool));
      output = in.clone();
    }
  }
  output = wrap(output, device);
  mask = wrap(mask, device);
  if (auto* recorder = Recorder::current()) {
    Call call(kNativeDropout);
    call.input(*input.unsafeGetTensorImpl());
    call.output(*output.unsafeGetTensorImpl());
    call.output(*mask.unsafeGetTensorImpl());
    recorder->record(call);
  }
  return {output, mask};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", native_dropout);
}

}  // namespace simacc

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &simacc::fused_sdp_choice)
}  // namespace at::native
