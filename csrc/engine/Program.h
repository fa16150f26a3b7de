// The engine's view of a Program: pointers into the arrays of simdevice.records.Program, nothing owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simdevice {

struct TileColumns {
  int64_t lists;           // tile lists; list i is tiles offsets[i] to offsets[i + 1]
  const int64_t* offsets;  // lists + 1
  const int64_t* load;
  const int64_t* compute;
  const int64_t* store;
  const int64_t* operands;
  const int64_t* results;
};

struct ProgramView {
  TileColumns tiles;
  int64_t operators;
  const int64_t* tile_list;
  const int64_t* dep_offsets;  // operators + 1
  const int64_t* deps;
  const int64_t* wait_for;
  const int64_t* host_wait;
  const int64_t* launch;
  const int64_t* not_before;

  int64_t first(int64_t op) const { return tiles.offsets[tile_list[op]]; }
  int64_t last(int64_t op) const { return tiles.offsets[tile_list[op] + 1]; }
};

// Where the eight times of each tile go: eight columns, or none.
struct Times {
  int64_t* issue = nullptr;
  int64_t* met = nullptr;
  int64_t* allocated = nullptr;
  int64_t* load_end = nullptr;
  int64_t* compute_start = nullptr;
  int64_t* compute_end = nullptr;
  int64_t* store_start = nullptr;
  int64_t* store_end = nullptr;

  Times() = default;
  Times(int64_t* column, int64_t tiles)
      : issue(column), met(column + tiles), allocated(column + 2 * tiles), load_end(column + 3 * tiles),
        compute_start(column + 4 * tiles), compute_end(column + 5 * tiles), store_start(column + 6 * tiles),
        store_end(column + 7 * tiles) {}
};

// What a simulation comes to, summed up while it runs: simdevice/analysis/outline.py says of what. Ticks and bytes.
struct Sums {
  int64_t load_bandwidth = 0, buffer_full = 0, dependency = 0;  // stalls; the other shares follow from amounts
  int64_t buffer_peak = 0;
};

// What the tiles of a program need, repetitions counted; by unit where there are three.
struct Amounts {
  int64_t tiles = 0;
  int64_t ticks[3] = {}, work[3] = {};
  int64_t load_ticks = 0, store_ticks = 0, loads = 0, loaded_bytes = 0, stored_bytes = 0;
};

// Of a program that Simulation::accepts.
inline Amounts amounts(const ProgramView& program, const int64_t* work, const uint8_t* unit) {
  const TileColumns& tiles = program.tiles;
  std::vector<int64_t> times(static_cast<std::size_t>(tiles.lists));
  for (int64_t op = 0; op < program.operators; ++op) ++times[static_cast<std::size_t>(program.tile_list[op])];
  Amounts sum;
  for (int64_t list = 0; list < tiles.lists; ++list) {
    const int64_t count = times[static_cast<std::size_t>(list)];
    sum.tiles += count * (tiles.offsets[list + 1] - tiles.offsets[list]);
    for (int64_t i = tiles.offsets[list]; i < tiles.offsets[list + 1]; ++i) {
      if (unit[i] < 3) {
        sum.ticks[unit[i]] += count * tiles.compute[i];
        sum.work[unit[i]] += count * work[i];
      }
      sum.load_ticks += count * tiles.load[i];
      sum.store_ticks += count * tiles.store[i];
      sum.loads += tiles.load[i] > 0 ? count : 0;
      sum.loaded_bytes += count * tiles.operands[i];
      sum.stored_bytes += tiles.store[i] > 0 ? count * tiles.results[i] : 0;
    }
  }
  return sum;
}

}  // namespace simdevice
