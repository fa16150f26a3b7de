#include "Typed.h"

#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/embedding_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <ATen/ops/where_ops.h>
#include <ATen/ops/zero_ops.h>
#include <torch/library.h>

namespace simacc {

namespace {

template <class Op>
void add_typed(torch::Library& library, const c10::OperatorName& name, const Plan* plan) {
  Typed<Op>::plan = plan;
  const auto full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
  library.impl(full.c_str() + 6, &Typed<Op>::kernel);  // without "aten::"
}

template <class Op>
std::pair<std::string, RegisterTyped> entry() {
  std::string name = Op::name;
  if (*Op::overload_name != '\0') {
    name += std::string(".") + Op::overload_name;
  }
  return {name, &add_typed<Op>};
}

}  // namespace

const std::vector<std::pair<std::string, RegisterTyped>>& typed_kernels() {
  namespace ops = at::_ops;
  static const std::vector<std::pair<std::string, RegisterTyped>> table{
      entry<ops::_log_softmax>(),
      entry<ops::_scaled_dot_product_flash_attention_for_cpu>(),
      entry<ops::_softmax>(),
      entry<ops::add_Tensor>(),
      entry<ops::add__Tensor>(),
      entry<ops::addcdiv_>(),
      entry<ops::addcmul_>(),
      entry<ops::addmm>(),
      entry<ops::baddbmm>(),
      entry<ops::bmm>(),
      entry<ops::clone>(),
      entry<ops::cos>(),
      entry<ops::div_Tensor>(),
      entry<ops::div__Tensor>(),
      entry<ops::embedding>(),
      entry<ops::eq_Tensor>(),
      entry<ops::exp>(),
      entry<ops::fill__Scalar>(),
      entry<ops::gelu>(),
      entry<ops::masked_fill_Scalar>(),
      entry<ops::mean_dim>(),
      entry<ops::mm>(),
      entry<ops::mul_Tensor>(),
      entry<ops::mul__Tensor>(),
      entry<ops::native_layer_norm>(),
      entry<ops::neg>(),
      entry<ops::pow_Tensor_Scalar>(),
      entry<ops::relu>(),
      entry<ops::relu_>(),
      entry<ops::rsqrt>(),
      entry<ops::sigmoid>(),
      entry<ops::silu>(),
      entry<ops::sin>(),
      entry<ops::sqrt>(),
      entry<ops::sub_Tensor>(),
      entry<ops::sub__Tensor>(),
      entry<ops::sum>(),
      entry<ops::sum_dim_IntList>(),
      entry<ops::tanh>(),
      entry<ops::threshold_backward>(),
      entry<ops::where_self>(),
      entry<ops::zero_>(),
  };
  return table;
}

}  // namespace simacc
