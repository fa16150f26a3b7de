#include "Lowering.h"

#include <algorithm>

namespace simdevice {

int64_t Lowering::lower(const WorkView& work, int64_t rows, const int32_t* signature, const int64_t* tensors,
                        Piece& piece) {
  const int64_t refused = prepare(work, rows, signature);
  if (refused >= 0) return refused;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t s = signature[row];
    const int64_t inputs = work.inputs[s], outputs = work.outputs[s];
    if (work.row_kind[s] == kOperator)
      add_operator(work, s, tensors, rows_ + row, piece);
    else if (work.row_kind[s] == kView)
      add_view(tensors, inputs, tensors + inputs, outputs);
    else
      add_order(work.row_kind[s], inputs + outputs > 0 ? tensors[0] : -1);
    tensors += inputs + outputs;
  }
  rows_ += rows;
  for (const int64_t list : used_) local_[static_cast<std::size_t>(list)] = -1;
  used_.clear();
  return -1;
}

// Cuts the signatures that are new, before anything else changes.
int64_t Lowering::prepare(const WorkView& work, int64_t rows, const int32_t* signature) {
  first_list_.resize(static_cast<std::size_t>(work.signatures), -1);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t s = signature[row];
    if (first_list_[static_cast<std::size_t>(s)] >= 0 || work.row_kind[s] != kOperator) continue;
    const std::size_t lists = ends_.size();
    for (int64_t stage = work.first_stage[s]; stage < work.first_stage[s + 1]; ++stage) {
      if (!cut(work.stages[stage], rates_, tiles_)) {
        ends_.resize(lists);
        tiles_.truncate(lists == 0 ? 0 : ends_.back());
        return s;
      }
      ends_.push_back(tiles_.size());
    }
    first_list_[static_cast<std::size_t>(s)] = static_cast<int64_t>(lists);
    local_.resize(ends_.size(), -1);
  }
  return -1;
}

void Lowering::add_operator(const WorkView& work, int64_t s, const int64_t* tensors, int64_t row, Piece& piece) {
  const int64_t first = work.first_stage[s], stages = work.first_stage[s + 1] - first;
  if (stages == 0) return;
  writers_.clear();
  for (int64_t i = 0; i < work.inputs[s]; ++i) {
    const int64_t writer = tensors[i] < 0 ? FlatMap::kAbsent : writer_.find(tensors[i]);
    if (writer != FlatMap::kAbsent) writers_.push_back(writer);
  }
  std::sort(writers_.begin(), writers_.end());
  writers_.erase(std::unique(writers_.begin(), writers_.end()), writers_.end());
  for (int64_t stage = 0; stage < stages; ++stage) {
    piece.tile_list.push_back(list_in(piece, first_list_[static_cast<std::size_t>(s)] + stage));
    if (work.stages[first + stage].chained)
      piece.deps.push_back(operators_ - 1);
    else
      piece.deps.insert(piece.deps.end(), writers_.begin(), writers_.end());
    piece.dep_offsets.push_back(static_cast<int64_t>(piece.deps.size()));
    piece.wait_for.push_back(wait_);
    piece.host_wait.push_back(host_wait_);
    piece.launch.push_back(stage == 0 ? rates_.launch_ticks : 0);
    piece.trace_row.push_back(row);
    wait_ = host_wait_ = 0;
    ++operators_;
  }
  for (int64_t i = work.inputs[s]; i < work.inputs[s] + work.outputs[s]; ++i)
    if (tensors[i] >= 0) writer_.set(tensors[i], operators_ - 1);
}

void Lowering::add_view(const int64_t* reads, int64_t inputs, const int64_t* writes, int64_t outputs) {
  int64_t writer = FlatMap::kAbsent;
  for (int64_t i = 0; i < inputs; ++i)
    if (reads[i] >= 0) writer = std::max(writer, writer_.find(reads[i]));
  for (int64_t i = 0; i < outputs; ++i) {
    if (writes[i] < 0 || std::find(reads, reads + inputs, writes[i]) != reads + inputs) continue;
    if (writer == FlatMap::kAbsent)
      writer_.erase(writes[i]);
    else
      writer_.set(writes[i], writer);
  }
}

void Lowering::add_order(int64_t kind, int64_t event) {
  if (kind == kRecordEvent) {
    events_[event] = operators_;
    return;
  }
  const int64_t recorded = std::max<int64_t>(0, event_position(event));
  if (kind == kWaitEvent)
    wait_ = std::max(wait_, recorded);
  else
    host_wait_ = std::max(host_wait_, kind == kSynchronize ? operators_ : recorded);
}

int64_t Lowering::list_in(Piece& piece, int64_t list) {
  int64_t& local = local_[static_cast<std::size_t>(list)];
  if (local < 0) {
    local = static_cast<int64_t>(piece.offsets.size()) - 1;
    used_.push_back(list);
    const std::size_t begin = list == 0 ? 0 : ends_[static_cast<std::size_t>(list) - 1];
    piece.tiles.append(tiles_, begin, ends_[static_cast<std::size_t>(list)]);
    piece.offsets.push_back(static_cast<int64_t>(piece.tiles.size()));
  }
  return local;
}

int64_t Lowering::event_position(int64_t event) const {
  const auto found = events_.find(event);
  return found == events_.end() ? -1 : found->second;
}

std::unordered_map<int64_t, int64_t> Lowering::events_before(int64_t operators) const {
  std::unordered_map<int64_t, int64_t> found;
  for (const auto& [event, position] : events_)
    if (position < operators) found.emplace(event, position);
  return found;
}

void Lowering::forget(int64_t operators) {
  writer_.keep_if([=](int64_t writer) { return writer >= operators; });
}

}  // namespace simdevice
