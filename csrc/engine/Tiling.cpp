#include "Tiling.h"

#include <algorithm>
#include <array>

namespace simdevice {
namespace {

constexpr int64_t kMostTiles = int64_t{1} << 24;

Wide bytes_of(int64_t bits, int64_t batch, int64_t rows, int64_t columns) {
  return (static_cast<Wide>(bits) * static_cast<Wide>(batch) * static_cast<Wide>(rows) * static_cast<Wide>(columns) +
          7) / 8;
}

Wide block_bytes(const Stage& s, int64_t batch, int64_t m, int64_t k, int64_t n) {
  return bytes_of(s.a_bits, batch, m, k) + bytes_of(s.b_bits, batch, k, n) + bytes_of(s.out_bits, batch, m, n);
}

// The slices x*(i+1)/n - x*i/n of a total, without products: the quotient, and one more whenever the
// running remainder is full.
class Slices {
 public:
  Slices(int64_t total, int64_t count) : quotient_(total / count), remainder_(total % count), count_(count) {}

  int64_t next() {
    carried_ += remainder_;
    if (carried_ < count_) return quotient_;
    carried_ -= count_;
    return quotient_ + 1;
  }

 private:
  int64_t quotient_, remainder_, count_, carried_ = 0;
};

// Remembers the last two transfers: slices come in two sizes.
class TransferMemo {
 public:
  explicit TransferMemo(const Rates& rates) : rates_(rates) {}

  int64_t operator()(int64_t bytes, int64_t ops) {
    for (const Known& known : known_)
      if (known.bytes == bytes && known.ops == ops) return known.ticks;
    known_[turn_ ^= 1] = {bytes, ops, rates_.transfer_ticks(bytes, ops)};
    return known_[turn_].ticks;
  }

 private:
  struct Known {
    int64_t bytes = -1, ops = -1, ticks = 0;
  };
  const Rates& rates_;
  std::array<Known, 2> known_;
  std::size_t turn_ = 0;
};

bool cut_stream(const Stage& s, const Rates& rates, TileVectors& tiles) {
  if ((s.read_bytes > 0) + (s.written_bytes > 0) > rates.tile_bytes) return false;
  const int64_t bytes = s.read_bytes + s.written_bytes;
  int64_t count = std::max<int64_t>(1, ceil_div(bytes, std::max<int64_t>(1, rates.tile_bytes)));
  const auto fits = [&] { return ceil_div(s.read_bytes, count) + ceil_div(s.written_bytes, count) <= rates.tile_bytes; };
  while (!fits() && count < kMostTiles) ++count;
  if (!fits() || count > kMostTiles) return false;
  const bool in_transit = rates.in_transit && (s.load_ops != 0 || s.store_ops != 0);
  Slices load(s.read_bytes, count), store(s.written_bytes, count), work(in_transit ? 0 : s.work, count);
  Slices load_ops(in_transit ? s.load_ops : 0, count), store_ops(in_transit ? s.store_ops : 0, count);
  TransferMemo load_ticks(rates), store_ticks(rates);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t in = load.next(), out = store.next(), lanes = work.next();
    tiles.append(load_ticks(in, load_ops.next()), rates.vector_ticks(lanes), store_ticks(out, store_ops.next()), in, out,
                 lanes, kVector);
  }
  return true;
}

bool cut_product(const Stage& s, const Rates& rates, TileVectors& tiles) {
  int64_t bm = s.m, bn = s.n, bk = s.k;
  const Wide allowed = static_cast<Wide>(rates.tile_bytes);
  const int64_t beside = rates.all_operands ? s.read_bytes : 0;
  const auto tiles_of = [&](int64_t bb) {
    return static_cast<Wide>(ceil_div(s.batch, bb)) * static_cast<Wide>(ceil_div(s.m, bm)) *
           static_cast<Wide>(ceil_div(s.n, bn)) * static_cast<Wide>(ceil_div(s.k, bk));
  };
  const auto need = [&](int64_t bb) {
    const Wide count = tiles_of(bb);
    return static_cast<Wide>(bb) * block_bytes(s, 1, bm, bk, bn) + (static_cast<Wide>(beside) + count - 1) / count;
  };
  while (need(1) > allowed && std::max({bm, bn, bk}) > 1) {
    int64_t& largest = bm >= bn && bm >= bk ? bm : bn >= bk ? bn : bk;
    largest = ceil_div(largest, 2);
  }
  int64_t bb = 1;
  if (bm == s.m && bn == s.n && bk == s.k)
    for (int64_t high = s.batch; bb < high;) {
      const int64_t middle = bb + (high - bb + 1) / 2;
      if (need(middle) <= allowed)
        bb = middle;
      else
        high = middle - 1;
    }
  if (need(bb) > allowed || tiles_of(bb) > static_cast<Wide>(kMostTiles)) return false;
  const int64_t b_steps = ceil_div(s.batch, bb), m_steps = ceil_div(s.m, bm), n_steps = ceil_div(s.n, bn);
  const int64_t k_steps = ceil_div(s.k, bk);
  Slices beside_share(beside, b_steps * m_steps * n_steps * k_steps);
  TransferMemo load_ticks(rates);

  // Only the last block along a dimension is smaller, so there are at most sixteen shapes.
  struct Shape {
    bool known = false;
    int64_t load = 0, compute = 0, store = 0, operands = 0, result = 0, work = 0;
  };
  std::array<Shape, 16> shapes;
  for (int64_t b = 0; b < b_steps; ++b)
    for (int64_t i = 0; i < m_steps; ++i)
      for (int64_t j = 0; j < n_steps; ++j)
        for (int64_t l = 0; l < k_steps; ++l) {
          const bool last_b = b == b_steps - 1, last_m = i == m_steps - 1, last_n = j == n_steps - 1;
          const bool last_k = l == k_steps - 1;
          Shape& shape = shapes[std::size_t{8} * last_b + std::size_t{4} * last_m + std::size_t{2} * last_n + last_k];
          if (!shape.known) {
            const int64_t batch = last_b ? s.batch - b * bb : bb, m = last_m ? s.m - i * bm : bm;
            const int64_t n = last_n ? s.n - j * bn : bn, k = last_k ? s.k - l * bk : bk;
            shape.known = true;
            shape.operands = static_cast<int64_t>(bytes_of(s.a_bits, batch, m, k) + bytes_of(s.b_bits, batch, k, n));
            shape.result = static_cast<int64_t>(bytes_of(s.out_bits, batch, m, n));
            shape.load = rates.transfer_ticks(shape.operands);
            shape.compute = rates.array_ticks(batch, m, k, n);
            shape.store = last_k ? rates.transfer_ticks(shape.result) : 0;
            shape.work = batch * m * k * n;
          }
          const int64_t share = beside_share.next();
          tiles.append(share == 0 ? shape.load : load_ticks(shape.operands + share, 0), shape.compute, shape.store,
                       shape.operands + share, shape.result, shape.work, kArray);
        }
  return true;
}

}  // namespace

void TileVectors::append(int64_t load_ticks, int64_t compute_ticks, int64_t store_ticks, int64_t operand_bytes,
                         int64_t result_bytes, int64_t tile_work, Unit tile_unit) {
  load.push_back(load_ticks);
  compute.push_back(compute_ticks);
  store.push_back(store_ticks);
  operands.push_back(operand_bytes);
  results.push_back(result_bytes);
  work.push_back(tile_work);
  unit.push_back(tile_unit);
}

void TileVectors::append(const TileVectors& other, std::size_t begin, std::size_t end) {
  const auto copy = [=](auto& to, const auto& from) {
    to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin), from.begin() + static_cast<std::ptrdiff_t>(end));
  };
  copy(load, other.load);
  copy(compute, other.compute);
  copy(store, other.store);
  copy(operands, other.operands);
  copy(results, other.results);
  copy(work, other.work);
  copy(unit, other.unit);
}

void TileVectors::truncate(std::size_t tiles) {
  for (auto* column : {&load, &compute, &store, &operands, &results, &work}) column->resize(tiles);
  unit.resize(tiles);
}

bool cut(const Stage& stage, const Rates& rates, TileVectors& tiles) {
  switch (stage.kind) {
    case kProduct:
      return cut_product(stage, rates, tiles);
    case kStream:
      return cut_stream(stage, rates, tiles);
    default:
      tiles.append(0, rates.link_ticks(stage.read_bytes), 0, 0, 0, stage.read_bytes, kLink);
      return true;
  }
}

}  // namespace simdevice
