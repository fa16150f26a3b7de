// simdevice.lowering.Rates in C++: the same whole numbers, the same rounding up.
#pragma once

#include <algorithm>
#include <cstdint>

namespace simdevice {

using Wide = unsigned __int128;

inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

struct Rates {
  int64_t buffer_bytes, tile_bytes;
  int64_t array_rows, array_cols, vector_lanes;
  int64_t launch_ticks;
  bool in_transit;
  bool all_operands;  // blocks of a product also load what its operator reads beside the operands
  int64_t transfer_fixed, transfer_byte, transfer_op, transfer_scale;
  int64_t cycle, cycle_scale;
  int64_t link_fixed, link_byte, link_scale;

  // Durations beyond 64 bits become the largest: a simulation refuses them.
  static int64_t rounded_up(Wide amount, int64_t scale) {
    const Wide ticks = (amount + static_cast<Wide>(scale) - 1) / static_cast<Wide>(scale);
    return ticks > static_cast<Wide>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(ticks);
  }
  static Wide times(int64_t a, int64_t b) { return static_cast<Wide>(a) * static_cast<Wide>(b); }

  int64_t transfer_ticks(int64_t bytes, int64_t ops = 0) const {
    if (bytes == 0) return 0;
    const Wide moved = std::max(times(bytes, transfer_byte), times(ops, transfer_op));
    return rounded_up(moved + static_cast<Wide>(transfer_fixed), transfer_scale);
  }
  int64_t link_ticks(int64_t bytes) const {
    return rounded_up(times(bytes, link_byte) + static_cast<Wide>(link_fixed), link_scale);
  }
  int64_t cycle_ticks(int64_t cycles) const { return rounded_up(times(cycles, cycle), cycle_scale); }
  int64_t array_ticks(int64_t batch, int64_t m, int64_t k, int64_t n) const {
    const int64_t blocks = batch * ceil_div(m, array_rows) * ceil_div(n, array_cols);
    return cycle_ticks(blocks * k + array_rows + array_cols);
  }
  int64_t vector_ticks(int64_t work) const { return cycle_ticks(ceil_div(work, vector_lanes)); }
};

}  // namespace simdevice
