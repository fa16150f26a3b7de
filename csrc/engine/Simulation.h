// The recurrence of simdevice/engines/python.py, which says what is computed; here is how it is fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "FreeQueue.h"
#include "Program.h"

namespace simdevice {

// A simulation that grows. 1. Construct for a machine. 2. append operators in program order.
// 3. frontier(p) at any time. 4. write_pending() before the times are read.
class Simulation {
 public:
  Simulation(int64_t buffer_bytes, int64_t dram_channels);

  // Whether every index is in range, every tile fits and every dependency looks back; what fails here
  // would be undefined behaviour in append.
  bool accepts(const ProgramView& program) const;

  // Simulates; `times` must stay valid while stores are pending (see write_pending).
  void append(const ProgramView& program, Times times);

  // The same without times, adding to the sums.
  void append(const ProgramView& program, Sums& sums);

  // When the operators before a position are complete, if no further load comes between.
  int64_t frontier(int64_t operators) const;

  // When the host has issued all that was appended.
  int64_t host() const { return host_; }

  int64_t operators() const { return base_ + static_cast<int64_t>(positions_.size()) - 1; }

  // The last position before which everything is complete before anything more can load.
  int64_t settled() const;

  // Drops what is only needed to ask for positions before this one.
  void forget(int64_t operators);

  // Writes the times of stores that a further load could still delay, as they are without one.
  void write_pending() const;

 private:
  // What is known where an operator ends: of all tiles before it.
  struct Position {
    int64_t compute_end;
    int64_t store_end;  // of the stores that are certain
    int64_t stores;     // how many stores there are
  };

  // A store that waits to see whether a load asks for the only memory channel before it.
  struct Pending {
    int64_t compute_end, ticks, bytes;
    int64_t *start, *end;  // where its times go; may be null
  };

  enum Wanted { kNothing, kTimes, kSums };

  template <bool kSingleChannel, Wanted kWanted>
  void run(const ProgramView& program, Times times, Sums& sums);
  template <bool kSingleChannel>
  int64_t allocate(int64_t time, int64_t size);
  int64_t complete(int64_t op) const;
  int64_t stores_end(const Position& position) const;
  void store_next();
  void drop_frees_until(int64_t time);

  int64_t room_, capacity_;
  bool single_channel_;
  int64_t host_ = 0, loaded_ = 0, computed_ = 0, stored_ = 0, channel_ = 0;
  int64_t total_ticks_ = 0;
  FreeQueue computes_, stores_;
  std::deque<Pending> pending_;
  int64_t certain_ = 0;  // stores whose times are certain
  int64_t counted_ = 0;  // stores so far
  int64_t base_ = 0;     // the operator of positions_[0]
  std::vector<Position> positions_{Position{0, 0, 0}};
  std::size_t uncertain_ = 1;  // the first position whose store_end may change
};

}  // namespace simdevice
