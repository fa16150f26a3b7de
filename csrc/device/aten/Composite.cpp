// Operators that need more than a CPU kernel run in place: attention's choice of kernel, dropout's
// generator, histograms of integers, moving a parameter to the device.
#include "../runtime/Generator.h"
#include "OnHost.h"

#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace simacc {
namespace {

using at::Tensor;

const Operator kHistc("aten::histc");
const Operator kNativeDropout("aten::native_dropout");

// Which fused attention a CPU would take; without this, attention falls apart into bmm and softmax. The choice
// looks at sizes and types only, so that it serves tensors without data too (Dynamo's).
int64_t fused_sdp_choice(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
    double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  return at::native::_fused_sdp_choice_cpp(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
}

// PyTorch's CPU kernel draws from the CPU's default generator; this one draws from the device's.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  const auto compute = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const auto mask_options = in[0].options().dtype(at::kBool);
    if (!train.value_or(true)) {
      return {in[0].clone(), at::ones_like(in[0], mask_options)};
    }
    const double keep = 1 - p;
    const Tensor mask = at::empty_like(in[0], mask_options).bernoulli_(keep, host_generator({}, input.device().index()));
    return {in[0].mul(mask).mul_(keep == 0 ? 0. : 1. / keep), mask};
  };
  auto out = on_host(kNativeDropout, {input}, compute, input, p, train);
  return {out[0], out[1]};
}

// The CPU's dropout: a product with noise of 0 and 1 / keep, rounded in the tensor's own type. PyTorch's composite gives
// accelerators native_dropout, which multiplies by a mask and by 1 / keep, and rounds otherwise.
Tensor dropout(const Tensor& input, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || input.sym_numel() == 0) {
    return input;
  }
  if (p == 1) {
    return input.mul(at::zeros({}, input.options()));
  }
  return input * at::empty_like(input).bernoulli_(1 - p).div_(1 - p);
}

// PyTorch's CPU kernel counts floating point numbers only; accelerators are asked to count integers too
// (transformers counts tokens per expert so). Doubles hold every integer up to 2^53.
Tensor histc(const Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  const auto compute = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    if (at::isIntegralType(in[0].scalar_type(), /*includeBool=*/false)) {
      return {at::histc(in[0].to(at::kDouble), bins, min, max).to(in[0].scalar_type())};
    }
    return {at::histc(in[0], bins, min, max)};
  };
  return on_host(kHistc, {self}, compute, self, bins, min, max)[0];
}

// Whether `tensor.data = other` may change a tensor's device in place. PyTorch knows its own devices
// only; without this, Module.to would make new parameters, untie tied ones and leave optimizers with
// the old ones.
bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  const auto dense = [](const Tensor& t) { return (t.device().is_cpu() || on_device(t)) && t.layout() == c10::kStrided; };
  return dense(self) && dense(from);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
  m.impl("dropout", dropout);
  m.impl("histc", histc);
  m.impl("native_dropout", native_dropout);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("dropout", dropout);  // made of differentiable operators
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

}  // namespace simacc

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &simacc::fused_sdp_choice)
}  // namespace at::native
