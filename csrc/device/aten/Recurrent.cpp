// LSTM and GRU cells that CUDA has fused, for which there is no CPU kernel. RecurrentLayers.cpp does without; what
// PyTorch itself takes apart for an accelerator still comes here (torch.func.vmap). The arithmetic is that of the
// unfused cells on the CPU.
#include "OnHost.h"

#include <ATen/Functions.h>
#include <torch/library.h>

namespace simacc {
namespace {

using at::Tensor;
using std::optional;

const Operator kLstmCell("aten::_thnn_fused_lstm_cell");
const Operator kLstmCellBackward("aten::_thnn_fused_lstm_cell_backward_impl");
const Operator kGruCell("aten::_thnn_fused_gru_cell");
const Operator kGruCellBackward("aten::_thnn_fused_gru_cell_backward");

Tensor with_bias(const Tensor& gates, const Tensor& bias) {
  return bias.defined() ? gates + bias : gates;
}

Tensor or_zero(const Tensor& gradient, const Tensor& like) {
  return gradient.defined() ? gradient : at::zeros_like(like);
}

// (h, c, workspace): the workspace keeps the four activated gates for the backward pass.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
    const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  auto out = on_host(kLstmCell, {input_gates, hidden_gates, cx, input_bias.value_or(Tensor()), hidden_bias.value_or(Tensor())},
      [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        const auto gates = (with_bias(in[1], in[4]) + with_bias(in[0], in[3])).chunk(4, 1);
        const Tensor i = gates[0].sigmoid(), f = gates[1].sigmoid(), g = gates[2].tanh(), o = gates[3].sigmoid();
        const Tensor cy = (f * in[2]).add_(i * g);
        return {o * cy.tanh(), cy, at::cat({i, f, g, o}, 1)};
      },
      input_gates, hidden_gates, cx, input_bias, hidden_bias);
  return {out[0], out[1], out[2]};
}

// With h = o tanh(c) and c = f c' + i g: dc = grad_c + grad_h o (1 - tanh^2 c); each gate's gradient is
// its factor's times the derivative of its activation.
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const optional<Tensor>& grad_hy, const optional<Tensor>& grad_cy,
    const Tensor& cx, const Tensor& cy, const Tensor& workspace, bool has_bias) {
  auto out = on_host(kLstmCellBackward, {grad_hy.value_or(Tensor()), grad_cy.value_or(Tensor()), cx, cy, workspace},
      [has_bias](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        const auto gates = in[4].chunk(4, 1);
        const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
        const Tensor grad_h = or_zero(in[0], in[3]), tanh_c = in[3].tanh();
        const Tensor grad_c = or_zero(in[1], in[3]) + grad_h * o * (1 - tanh_c * tanh_c);
        const Tensor grad_gates = at::cat({grad_c * g * i * (1 - i), grad_c * in[2] * f * (1 - f), grad_c * i * (1 - g * g),
                                              grad_h * tanh_c * o * (1 - o)},
            1);
        return {grad_gates, grad_c * f, has_bias ? grad_gates.sum(0) : Tensor()};
      },
      grad_hy, grad_cy, cx, cy, workspace, has_bias);
  return {out[0], out[1], out[2]};
}

// (h, workspace): the workspace keeps r, z, n, the old h, and the hidden part of n.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
    const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  auto out = on_host(kGruCell, {input_gates, hidden_gates, hx, input_bias.value_or(Tensor()), hidden_bias.value_or(Tensor())},
      [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        const auto from_input = with_bias(in[0], in[3]).chunk(3, 1), from_hidden = with_bias(in[1], in[4]).chunk(3, 1);
        const Tensor r = (from_hidden[0] + from_input[0]).sigmoid(), z = (from_hidden[1] + from_input[1]).sigmoid();
        const Tensor n = (from_input[2] + r * from_hidden[2]).tanh();
        return {(in[2] - n).mul_(z).add_(n), at::cat({r, z, n, in[2], from_hidden[2]}, 1)};
      },
      input_gates, hidden_gates, hx, input_bias, hidden_bias);
  return {out[0], out[1]};
}

// With h = n + z (h' - n) and n = tanh(x + r y): dn = grad (1 - z)(1 - n^2), dz = grad (h' - n) z (1 - z),
// dr = dn y r (1 - r), dy = dn r.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  auto out = on_host(kGruCellBackward, {grad_hy, workspace}, [has_bias](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const auto saved = in[1].chunk(5, 1);
    const Tensor &r = saved[0], &z = saved[1], &n = saved[2], &hx = saved[3], &y = saved[4];
    const Tensor grad_n = in[0] * (1 - z) * (1 - n * n);
    const Tensor grad_z = in[0] * (hx - n) * z * (1 - z);
    const Tensor grad_r = grad_n * y * r * (1 - r);
    const Tensor grad_input = at::cat({grad_r, grad_z, grad_n}, 1), grad_hidden = at::cat({grad_r, grad_z, grad_n * r}, 1);
    return {grad_input, grad_hidden, in[0] * z, has_bias ? grad_input.sum(0) : Tensor(), has_bias ? grad_hidden.sum(0) : Tensor()};
  },
      grad_hy, workspace, has_bias);
  return {out[0], out[1], out[2], out[3], out[4]};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
}

}  // namespace simacc
