// The engine's view of a Program: pointers into the arrays of simdevice.records.Program, nothing owned.
#pragma once

#include <cstdint>

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

}  // namespace simdevice
