// LSTM, GRU and RNN, in steps of the operators that the CPU takes them apart into, or one oneDNN operator per layer
// where the CPU has one. PyTorch's own composite asks where its input is, and gives accelerators the steps of CUDA's
// fused cells, which round differently. The order of calls is the CPU's too: gradients are summed in that order.
#include "../runtime/Devices.h"
#include "RecurrentSteps.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/RNN.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <algorithm>

namespace simacc {
namespace {

using at::Tensor;
using at::TensorList;
using std::optional;

// A layer's outputs, all steps in one tensor, and its last state.
struct Output {
  Tensor all;
  State last;
};

// A sequence of whole batches; `data` is [steps, batch, features].
struct Sequence {
  Tensor data;

  Output run(Step step, State state, const Weights& w, bool reverse) const {
    auto inputs = at::linear(data, w.input, w.input_bias).unbind(0);
    TORCH_CHECK(!inputs.empty(), "Expected sequence length to be larger than 0 in RNN");
    if (reverse) {
      std::reverse(inputs.begin(), inputs.end());
    }
    std::vector<Tensor> outputs;
    for (const auto& input : inputs) {
      state = step({input, true}, state, w);
      outputs.push_back(state.h);
    }
    if (reverse) {
      std::reverse(outputs.begin(), outputs.end());
    }
    return {at::stack(outputs, 0), state};
  }
};

// Sequences of falling lengths, packed: `data` is [all steps, features]; step i has its first `sizes[i]` sequences.
struct Packed {
  Tensor data;
  c10::IntArrayRef sizes;

  Output run(Step step, State state, const Weights& w, bool reverse) const {
    const Tensor inputs = at::linear(data, w.input, w.input_bias);
    return reverse ? backwards(step, inputs, state, w) : forwards(step, inputs, state, w);
  }

 private:
  static State rows(const State& state, int64_t start, int64_t end) {
    return state.with([&](const Tensor& t) { return t.narrow(0, start, end - start); });
  }
  static State joined(const std::vector<State>& states) {
    std::vector<Tensor> hs, cs;
    for (const auto& state : states) {
      hs.push_back(state.h);
      cs.push_back(state.c);
    }
    State out{at::cat(hs, 0), {}};
    out.c = cs.front().defined() ? at::cat(cs, 0) : Tensor();
    return out;
  }

  // Sequences end: their states are set aside, last ones first.
  Output forwards(Step step, const Tensor& inputs, State state, const Weights& w) const {
    std::vector<Tensor> outputs;
    std::vector<State> ended;
    int64_t offset = 0, before = sizes.front();
    for (const int64_t size : sizes) {
      const Tensor input = inputs.narrow(0, offset, size);
      if (size < before) {
        ended.push_back(rows(state, size, before));
        state = rows(state, 0, size);
      }
      state = step({input, true}, state, w);
      outputs.push_back(state.h);
      offset += size;
      before = size;
    }
    ended.push_back(state);
    std::reverse(ended.begin(), ended.end());
    const Tensor all = at::cat(outputs, 0);
    return {all, joined(ended)};
  }

  // Sequences begin: their first states join.
  Output backwards(Step step, const Tensor& inputs, const State& first, const Weights& w) const {
    std::vector<Tensor> outputs;
    int64_t offset = data.size(0), before = sizes.back();
    State state = rows(first, 0, before);
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
      if (*size > before) {
        state = joined({state, rows(first, before, *size)});
      }
      offset -= *size;
      state = step({inputs.narrow(0, offset, *size), true}, state, w);
      outputs.push_back(state.h);
      before = *size;
    }
    std::reverse(outputs.begin(), outputs.end());
    return {at::cat(outputs, 0), state};
  }
};

// What nn.LSTM, nn.GRU and nn.RNN ask for beside tensors.
struct Options {
  int64_t layers;
  double dropout;
  bool train, bidirectional;

  int64_t directions() const {
    return bidirectional ? 2 : 1;
  }
  Tensor dropped(const Tensor& outputs, int64_t layer) const {
    return dropout != 0 && train && layer < layers - 1 ? at::dropout(outputs, dropout, /*train=*/true) : outputs;
  }
};

// The flat list of parameters: per layer and direction two weights, then two biases, then a projection.
std::vector<Weights> weights_of(TensorList parameters, bool biases, bool projections) {
  const size_t each = 2 + (biases ? 2 : 0) + (projections ? 1 : 0);
  TORCH_CHECK(parameters.size() % each == 0, "got an incorrect number of RNN parameters");
  std::vector<Weights> out;
  for (size_t i = 0; i < parameters.size(); i += each) {
    out.push_back({parameters[i], parameters[i + 1], biases ? parameters[i + 2] : Tensor(),
        biases ? parameters[i + 3] : Tensor(), projections ? parameters[i + each - 1] : Tensor()});
  }
  return out;
}

// All layers; the last states, layer by layer, direction by direction.
template <class Data>
std::pair<Tensor, std::vector<State>> run_layers(
    Step step, Data data, const std::vector<State>& first, const std::vector<Weights>& weights, const Options& options) {
  const auto count = static_cast<size_t>(options.layers * options.directions());
  TORCH_CHECK(first.size() == count, "Expected more hidden states in stacked_rnn");
  TORCH_CHECK(weights.size() == count, "Expected more weights in stacked_rnn");
  std::vector<State> last;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < options.directions(); ++direction) {
      const auto i = last.size();
      Output output = data.run(step, first[i], weights[i], /*reverse=*/direction == 1);
      outputs.push_back(std::move(output.all));
      last.push_back(std::move(output.last));
    }
    data.data = options.dropped(outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1), layer);
  }
  return {data.data, last};
}

Tensor stacked(const std::vector<State>& states, Tensor State::*part) {
  std::vector<Tensor> parts;
  for (const auto& state : states) {
    parts.push_back(state.*part);
  }
  return at::stack(parts, 0);
}

template <class Data>
std::tuple<Tensor, Tensor> run_states(
    Step step, const Data& data, const Tensor& hx, TensorList parameters, bool biases, const Options& options) {
  std::vector<State> first;
  for (auto& h : hx.unbind(0)) {
    first.push_back({std::move(h), {}});
  }
  auto [all, last] = run_layers(step, data, first, weights_of(parameters, biases, false), options);
  return {all, stacked(last, &State::h)};
}

template <class Data>
std::tuple<Tensor, Tensor, Tensor> run_lstm(
    const Data& data, TensorList hx, TensorList parameters, bool biases, const Options& options) {
  std::vector<State> first;
  auto hs = hx[0].unbind(0), cs = hx[1].unbind(0);
  for (size_t i = 0; i < hs.size(); ++i) {
    first.push_back({std::move(hs[i]), std::move(cs[i])});
  }
  const bool projections = hx[0].sym_size(2) != hx[1].sym_size(2);
  auto [all, last] = run_layers(&lstm_step, data, first, weights_of(parameters, biases, projections), options);
  const Tensor hy = stacked(last, &State::h);
  return {all, hy, stacked(last, &State::c)};
}

// Whether this machine's oneDNN has a type; PyTorch says it under a name of its own.
bool onednn_has(const char* question) {
  const auto op = c10::Dispatcher::singleton().findSchema({question, ""});
  return op && op->typed<bool()>().call();
}

// Whether the CPU would give an LSTM layer to oneDNN, whose types are those that autocast would ask it for.
bool one_operator_per_layer(const Tensor& input, TensorList hx, TensorList parameters) {
  static const bool bfloat16 = onednn_has("mkldnn::_is_mkldnn_bf16_supported");
  static const bool float16 = onednn_has("mkldnn::_is_mkldnn_fp16_supported");
  const auto elsewhere = [](const Tensor& t) { return !t.device().is_privateuseone(); };
  if (!at::globalContext().userEnabledMkldnn() || hx[0].unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
      hx[0].size(2) != hx[1].size(2) || input.numel() == 0 || elsewhere(input) ||
      std::any_of(hx.begin(), hx.end(), elsewhere) || std::any_of(parameters.begin(), parameters.end(), elsewhere)) {
    return false;
  }
  auto type = input.scalar_type();
  if (type == at::kFloat && at::autocast::is_autocast_enabled(kDeviceType)) {
    type = at::autocast::get_autocast_dtype(kDeviceType);
  }
  return type == at::kFloat || (type == at::kBFloat16 && bfloat16) ||
      (type == at::kHalf && float16 && !c10::GradMode::is_enabled());
}

constexpr int64_t kOneDnnLstm = 2;  // its number among oneDNN's kinds of recurrent layers

std::tuple<Tensor, Tensor, Tensor> onednn_lstm(const Tensor& data, TensorList hx, TensorList parameters, bool biases,
    const Options& options, bool batch_first) {
  const auto weights = weights_of(parameters, biases, false);
  const Tensor h = hx[0].contiguous(), c = hx[1].contiguous();
  const auto or_zeros = [](const Tensor& bias, const Tensor& weight) {
    return bias.defined() ? bias : at::zeros(weight.sizes(), weight.options());
  };
  Tensor input = data.contiguous();
  std::vector<Tensor> hy, cy;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < options.directions(); ++direction) {
      const auto i = static_cast<int64_t>(hy.size());
      const auto& w = weights.at(hy.size());
      auto [output, h_last, c_last, workspace] = at::mkldnn_rnn_layer(input, w.input, w.hidden,
          or_zeros(w.input_bias, w.input), or_zeros(w.hidden_bias, w.hidden), h.select(0, i), c.select(0, i),
          /*reverse=*/direction == 1, /*batch_sizes=*/{}, kOneDnnLstm, h.size(2), options.layers, biases,
          options.bidirectional, batch_first, options.train);
      outputs.push_back(std::move(output));
      hy.push_back(std::move(h_last));
      cy.push_back(std::move(c_last));
    }
    input = options.dropped(outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1), layer);
  }
  const Tensor last_h = at::stack(hy, 0);
  return {input, last_h, at::stack(cy, 0)};
}

// PyTorch's own words, as programs may know them.
void check_lstm_states(TensorList hx, const Options& options) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  for (size_t i = 0; i < 2; ++i) {
    const char* name = i == 0 ? "h_0" : "c_0";
    TORCH_CHECK(hx[i].dim() == 3, "For batched 3-D input, hx[", i, "] (", name, ") should be 3-D but got ", hx[i].dim(),
        "-D tensor");
  }
  const int64_t count = options.layers * options.directions();
  for (size_t i = 0; i < 2; ++i) {
    TORCH_CHECK(hx[i].size(0) == count, "Expected ", i == 0 ? "h_0" : "c_0", " size(0) to be ", count,
        " (num_layers * num_directions), but got ", hx[i].size(0));
  }
}

c10::IntArrayRef sizes_on_host(const Tensor& batch_sizes) {
  TORCH_CHECK(batch_sizes.device().is_cpu() && batch_sizes.numel() > 0,
      "expected batch_sizes on the CPU, one per step, got ", batch_sizes.numel(), " on ", batch_sizes.device());
  return {batch_sizes.const_data_ptr<int64_t>(), static_cast<size_t>(batch_sizes.numel())};
}

template <Step step>
std::tuple<Tensor, Tensor> layers(const Tensor& input, const Tensor& hx, TensorList parameters, bool biases,
    int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
  at::native::check_attributes(input, parameters, hx);
  auto out = run_states(step, Sequence{batch_first ? input.transpose(0, 1) : input}, hx, parameters, biases,
      {layers, dropout, train, bidirectional});
  if (batch_first) {
    std::get<0>(out).transpose_(0, 1);
  }
  return out;
}

template <Step step>
std::tuple<Tensor, Tensor> packed_layers(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
    TensorList parameters, bool biases, int64_t layers, double dropout, bool train, bool bidirectional) {
  return run_states(
      step, Packed{data, sizes_on_host(batch_sizes)}, hx, parameters, biases, {layers, dropout, train, bidirectional});
}

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, TensorList hx, TensorList parameters, bool biases,
    int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
  const Options options{layers, dropout, train, bidirectional};
  check_lstm_states(hx, options);
  const Tensor data = batch_first ? input.transpose(0, 1) : input;
  std::tuple<Tensor, Tensor, Tensor> out;
  if (one_operator_per_layer(input, hx, parameters)) {
    out = onednn_lstm(data, hx, parameters, biases, options, batch_first);
  } else {
    at::native::check_attributes(input, parameters, hx);
    out = run_lstm(Sequence{data}, hx, parameters, biases, options);
  }
  if (batch_first) {
    std::get<0>(out) = std::get<0>(out).transpose(0, 1);
  }
  return out;
}

std::tuple<Tensor, Tensor, Tensor> packed_lstm(const Tensor& data, const Tensor& batch_sizes, TensorList hx,
    TensorList parameters, bool biases, int64_t layers, double dropout, bool train, bool bidirectional) {
  const Options options{layers, dropout, train, bidirectional};
  check_lstm_states(hx, options);
  return run_lstm(Packed{data, sizes_on_host(batch_sizes)}, hx, parameters, biases, options);
}

template <Step step, int64_t gates>
Tensor cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, const optional<Tensor>& b_ih,
    const optional<Tensor>& b_hh) {
  check_cell(input, hx, w_ih, w_hh, gates);
  return step({input}, {hx, {}}, {w_ih, w_hh, b_ih.value_or(Tensor()), b_hh.value_or(Tensor()), {}}).h;
}

std::tuple<Tensor, Tensor> unfused_lstm_cell(const Tensor& input, TensorList hx, const Tensor& w_ih, const Tensor& w_hh,
    const optional<Tensor>& b_ih, const optional<Tensor>& b_hh) {
  TORCH_CHECK(hx.size() == 2, "lstm_cell expects two hidden states");
  check_cell(input, hx, w_ih, w_hh, 4);
  auto out = lstm_step({input}, {hx[0], hx[1]}, {w_ih, w_hh, b_ih.value_or(Tensor()), b_hh.value_or(Tensor()), {}});
  return {out.h, out.c};
}

void register_layers(torch::Library& m) {
  m.impl("gru.data", packed_layers<&gru_step>);
  m.impl("gru.input", layers<&gru_step>);
  m.impl("gru_cell", cell<&gru_step, 3>);
  m.impl("lstm.data", packed_lstm);
  m.impl("lstm.input", lstm);
  m.impl("lstm_cell", unfused_lstm_cell);
  m.impl("rnn_relu.data", packed_layers<&rnn_step<&at::relu>>);
  m.impl("rnn_relu.input", layers<&rnn_step<&at::relu>>);
  m.impl("rnn_relu_cell", cell<&rnn_step<&at::relu>, 1>);
  m.impl("rnn_tanh.data", packed_layers<&rnn_step<&at::tanh>>);
  m.impl("rnn_tanh.input", layers<&rnn_step<&at::tanh>>);
  m.impl("rnn_tanh_cell", cell<&rnn_step<&at::tanh>, 1>);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_layers(m);
}

// Made of differentiable operators, so that autograd has nothing to add.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  register_layers(m);
}

}  // namespace simacc
