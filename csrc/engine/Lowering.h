// simdevice/lowering/python.py in C++: rows of a trace to a piece of a Program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "FlatMap.h"
#include "Rates.h"
#include "Tiling.h"

namespace simdevice {

// The columns of a WorkTable; nothing owned.
struct WorkView {
  int64_t signatures;
  const int64_t* row_kind;
  const int64_t* inputs;
  const int64_t* outputs;
  const int64_t* first_stage;  // signatures + 1
  const Stage* stages;
};

enum RowKind : int64_t { kOperator, kView, kSynchronize, kRecordEvent, kWaitEvent, kSynchronizeEvent };

// The columns of records.Program.
struct Piece {
  TileVectors tiles;
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> tile_list, dep_offsets{0}, deps, wait_for, host_wait, launch, trace_row;
};

class Lowering {
 public:
  explicit Lowering(const Rates& rates) : rates_(rates) {}

  // Lowers further rows; -1, or the signature that cannot be cut (and then nothing has changed but
  // what is known of signatures).
  int64_t lower(const WorkView& work, int64_t rows, const int32_t* signature, const int64_t* tensors, Piece& piece);

  int64_t operators() const { return operators_; }
  // What is before this position is complete before the host issues the next row.
  int64_t host_position() const { return host_wait_; }
  // Before which operator an event was last recorded; -1 where it was not.
  int64_t event_position(int64_t event) const;
  // The events recorded before a position, with their positions.
  std::unordered_map<int64_t, int64_t> events_before(int64_t operators) const;
  void forget_event(int64_t event) { events_.erase(event); }
  void forget(int64_t operators);

 private:
  int64_t prepare(const WorkView& work, int64_t rows, const int32_t* signature);
  void add_operator(const WorkView& work, int64_t signature, const int64_t* tensors, int64_t row, Piece& piece);
  void add_view(const int64_t* reads, int64_t inputs, const int64_t* writes, int64_t outputs);
  void add_order(int64_t kind, int64_t event);
  int64_t list_in(Piece& piece, int64_t list);

  Rates rates_;
  TileVectors tiles_;                      // every list that was cut
  std::vector<std::size_t> ends_;               // where list i of tiles_ ends
  std::vector<int64_t> first_list_;        // by signature; -1 where not cut yet
  std::vector<int64_t> local_;             // list of tiles_ to list of the current piece
  std::vector<int64_t> used_;              // lists of the current piece
  std::vector<int64_t> writers_;           // scratch
  FlatMap writer_;                         // storage to operator
  std::unordered_map<int64_t, int64_t> events_;
  int64_t wait_ = 0, host_wait_ = 0, rows_ = 0, operators_ = 0;
};

}  // namespace simdevice
