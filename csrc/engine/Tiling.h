// simdevice/lowering/tiling.py in C++: one stage of work cut into tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "Rates.h"

namespace simdevice {

// A row of WorkTable's stages, in the order of its STAGE_COLUMNS.
struct Stage {
  int64_t kind, batch, m, k, n, a_bits, b_bits, out_bits, chained;
  int64_t read_bytes, written_bytes, work, load_ops, store_ops;
};

enum StageKind : int64_t { kProduct, kStream, kTransfer };
enum Unit : uint8_t { kArray, kVector, kLink };

// Columns of tiles, as in records.Tiles.
struct TileVectors {
  std::vector<int64_t> load, compute, store, operands, results, work;
  std::vector<uint8_t> unit;

  std::size_t size() const { return load.size(); }
  void append(int64_t load_ticks, int64_t compute_ticks, int64_t store_ticks, int64_t operand_bytes,
              int64_t result_bytes, int64_t tile_work, Unit tile_unit);
  // Copies tiles begin to end of another set.
  void append(const TileVectors& other, std::size_t begin, std::size_t end);
  void truncate(std::size_t tiles);
};

// Appends the stage's tiles. False where it cannot be cut, as the Python rules then say in words.
bool cut(const Stage& stage, const Rates& rates, TileVectors& tiles);

}  // namespace simdevice
