// One step of an LSTM, a GRU or an RNN, in the operators that the CPU takes it apart into, in the CPU's order.
#pragma once

#include <ATen/Functions.h>

namespace simacc {

// One direction of one layer. What a layer has not is undefined.
struct Weights {
  at::Tensor input, hidden, input_bias, hidden_bias, projection;
};

// What goes from step to step; only an LSTM has a c.
struct State {
  at::Tensor h, c;

  template <class Change>
  State with(Change change) const {
    return {change(h), c.defined() ? change(c) : c};
  }
};

// A step's input, or what the input's weights have made of it already.
struct Input {
  at::Tensor tensor;
  bool multiplied = false;

  at::Tensor gates(const Weights& w) const {
    return multiplied ? tensor : at::linear(tensor, w.input, w.input_bias);
  }
};

using Step = State (*)(const Input& input, const State& state, const Weights& w);

inline at::Tensor hidden_gates(const State& state, const Weights& w) {
  return at::linear(state.h, w.hidden, w.hidden_bias);
}

template <at::Tensor (*nonlinearity)(const at::Tensor&)>
State rnn_step(const Input& input, const State& state, const Weights& w) {
  const at::Tensor gates = hidden_gates(state, w);
  return {nonlinearity(gates.add_(input.gates(w))), {}};
}

inline State lstm_step(const Input& input, const State& state, const Weights& w) {
  at::Tensor gates = hidden_gates(state, w);
  gates.add_(input.gates(w));
  auto parts = gates.unsafe_chunk(4, 1);
  const at::Tensor i = parts[0].sigmoid_(), f = parts[1].sigmoid_(), g = parts[2].tanh_(), o = parts[3].sigmoid_();
  const at::Tensor kept = f * state.c;
  const at::Tensor c = kept.add_(i * g);
  const at::Tensor h = o * c.tanh();
  return {w.projection.defined() ? at::matmul(h, w.projection.t()) : h, c};
}

inline State gru_step(const Input& input, const State& state, const Weights& w) {
  const auto from_input = input.gates(w).unsafe_chunk(3, 1);
  const auto from_hidden = hidden_gates(state, w).unsafe_chunk(3, 1);
  const at::Tensor reset = from_hidden[0].add_(from_input[0]).sigmoid_();
  const at::Tensor update = from_hidden[1].add_(from_input[1]).sigmoid_();
  const at::Tensor candidate = from_input[2].add(from_hidden[2].mul_(reset)).tanh_();
  return {(state.h - candidate).mul_(update).add_(candidate), {}};
}

// Raises in PyTorch's own words, as programs may know them.
inline void check_cell(
    const at::Tensor& input, at::TensorList states, const at::Tensor& w_ih, const at::Tensor& w_hh, int64_t gates) {
  const auto hidden = w_hh.sym_size(1);
  TORCH_CHECK(input.sym_size(1) == w_ih.sym_size(1), "input has inconsistent input_size: got ", input.sym_size(1),
      " expected ", w_ih.sym_size(1));
  for (const auto* w : {&w_ih, &w_hh}) {
    TORCH_CHECK(w->sym_size(0) == hidden * gates, w == &w_ih ? "weight_ih" : "weight_hh", " first dim must be ", gates,
        " * hidden_size = ", hidden * gates, ", but got ", w->sym_size(0));
  }
  for (size_t i = 0; i < states.size(); ++i) {
    TORCH_CHECK(input.sym_size(0) == states[i].sym_size(0), "Input batch size ", input.sym_size(0),
        " doesn't match hidden", i, " batch size ", states[i].sym_size(0));
    TORCH_CHECK(states[i].sym_size(1) == hidden, "hidden", i, " has inconsistent hidden_size: got ",
        states[i].sym_size(1), ", expected ", hidden);
  }
}

}  // namespace simacc
