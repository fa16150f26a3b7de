#include "Simulation.h"

#include <algorithm>

namespace simdevice {
namespace {

// All times stay below this, so that sums cannot overflow: 53 days in picoseconds.
constexpr int64_t kMostTicks = int64_t{1} << 62;

}  // namespace

Simulation::Simulation(int64_t buffer_bytes, int64_t dram_channels)
    : room_(buffer_bytes), capacity_(buffer_bytes), single_channel_(dram_channels == 1) {}

bool Simulation::accepts(const ProgramView& program) const {
  const TileColumns& tiles = program.tiles;
  std::vector<__int128> ticks(static_cast<std::size_t>(tiles.lists));
  for (int64_t list = 0; list < tiles.lists; ++list) {
    if (tiles.offsets[list] < 0 || tiles.offsets[list + 1] < tiles.offsets[list]) return false;
    __int128 sum = 0;
    for (int64_t i = tiles.offsets[list]; i < tiles.offsets[list + 1]; ++i) {
      const int64_t signs = tiles.load[i] | tiles.compute[i] | tiles.store[i] | tiles.operands[i] | tiles.results[i];
      if (signs < 0 || tiles.operands[i] > capacity_ || tiles.results[i] > capacity_ - tiles.operands[i]) return false;
      sum += static_cast<__int128>(tiles.load[i]) + tiles.compute[i] + tiles.store[i];
    }
    ticks[static_cast<std::size_t>(list)] = sum;
  }
  __int128 total = total_ticks_;
  const int64_t before = operators();
  int64_t latest = 0;
  for (int64_t op = 0; op < program.operators; ++op) {
    const int64_t list = program.tile_list[op];
    if (list < 0 || list >= tiles.lists || program.first(op) == program.last(op)) return false;
    total += ticks[static_cast<std::size_t>(list)] + program.launch[op];
    const int64_t self = before + op;
    if (program.launch[op] < 0 || program.wait_for[op] < 0 || program.wait_for[op] > self) return false;
    if (program.host_wait[op] < 0 || program.host_wait[op] > self) return false;
    if (program.not_before[op] < 0) return false;
    latest = std::max(latest, program.not_before[op]);
    if (program.dep_offsets[op + 1] < program.dep_offsets[op]) return false;
    for (int64_t d = program.dep_offsets[op]; d < program.dep_offsets[op + 1]; ++d)
      if (program.deps[d] < 0 || program.deps[d] >= self) return false;
  }
  return total + latest < kMostTicks;
}

void Simulation::append(const ProgramView& program, Times times) {
  const bool keep = times.issue != nullptr;
  Sums unused;
  if (single_channel_)
    keep ? run<true, kTimes>(program, times, unused) : run<true, kNothing>(program, times, unused);
  else
    keep ? run<false, kTimes>(program, times, unused) : run<false, kNothing>(program, times, unused);
}

void Simulation::append(const ProgramView& program, Sums& sums) {
  single_channel_ ? run<true, kSums>(program, Times(), sums) : run<false, kSums>(program, Times(), sums);
}

template <bool kSingleChannel, Simulation::Wanted kWanted>
void Simulation::run(const ProgramView& program, Times times, Sums& sums) {
  constexpr bool kKeep = kWanted == kTimes;
  const TileColumns& tiles = program.tiles;
  const std::size_t needed = positions_.size() + static_cast<std::size_t>(program.operators);
  if (needed > positions_.capacity()) positions_.reserve(std::max(needed, 2 * positions_.capacity()));
  int64_t at = 0;  // the tile's row in `times`
  for (int64_t op = 0; op < program.operators; ++op) {
    if (program.host_wait[op] > 0) host_ = std::max(host_, frontier(program.host_wait[op]));
    host_ += program.launch[op];
    total_ticks_ += program.launch[op];
    int64_t met = std::max({loaded_, host_, program.not_before[op]});
    if (program.wait_for[op] > 0) met = std::max(met, frontier(program.wait_for[op]));
    for (int64_t d = program.dep_offsets[op]; d < program.dep_offsets[op + 1]; ++d)
      met = std::max(met, complete(program.deps[d]));
    for (int64_t i = program.first(op), end = program.last(op); i < end; ++i, ++at) {
      const int64_t issue = loaded_;
      const int64_t load = tiles.load[i], store = tiles.store[i];
      const int64_t operands = tiles.operands[i], results = tiles.results[i];
      const int64_t allocated = allocate<kSingleChannel>(met, operands + results);
      loaded_ = allocated;
      if (!kSingleChannel) {
        loaded_ += load;
      } else if (load) {
        loaded_ = channel_ = std::max(allocated, channel_) + load;
      }
      if constexpr (kWanted == kSums) {
        if (loaded_ > computed_) {  // a gap: the phases of this load split it
          const int64_t since_met = std::max(met, computed_), since_allocated = std::max(allocated, since_met);
          sums.dependency += since_met - computed_;
          sums.buffer_full += since_allocated - since_met;
          sums.load_bandwidth += loaded_ - since_allocated;
        }
      }
      const int64_t compute_start = std::max(loaded_, computed_);
      computed_ = compute_start + tiles.compute[i];
      total_ticks_ += load + tiles.compute[i] + store;
      int64_t store_start = computed_, store_end = computed_;
      if (!store) {
        computes_.push(computed_, operands + results);
      } else {
        computes_.push(computed_, operands);
        ++counted_;
        if (kSingleChannel) {
          pending_.push_back({computed_, store, results, kKeep ? times.store_start + at : nullptr,
                              kKeep ? times.store_end + at : nullptr});
        } else {
          store_start = std::max(computed_, stored_);
          stored_ = store_end = store_start + store;
          stores_.push(stored_, results);
        }
      }
      // What is in use is at most what was not yet found to be free: frees are only looked for where that is a peak.
      // Last, because what a tile frees in no time was never in use.
      if (kWanted == kSums && capacity_ - room_ > sums.buffer_peak) {
        drop_frees_until(allocated);
        sums.buffer_peak = std::max(sums.buffer_peak, capacity_ - room_);
      }
      if (kKeep) {
        times.issue[at] = issue;
        times.met[at] = met;
        times.allocated[at] = allocated;
        times.load_end[at] = loaded_;
        times.compute_start[at] = compute_start;
        times.compute_end[at] = computed_;
        times.store_start[at] = store_start;
        times.store_end[at] = store_end;
      }
      met = loaded_;
    }
    positions_.push_back({computed_, stored_, counted_});
    if (!kSingleChannel) certain_ = counted_;
    if (certain_ == counted_) uncertain_ = positions_.size();
  }
}

// The earliest tick from `time` on with `size` bytes of room; takes them.
template <>
int64_t Simulation::allocate<false>(int64_t time, int64_t size) {
  // Compute ends come in order and so do store ends: what is freed next is the head of one of two
  // queues. Taking just enough, in that order, gives the same tick as taking all that is past.
  while (room_ < size) {
    FreeQueue& first = stores_.next() < computes_.next() ? stores_ : computes_;
    time = std::max(time, first.next());
    room_ += first.pop();
  }
  room_ -= size;
  // Nothing allocates before loaded_: what came free until then is room, and need not be queued.
  if (computes_.full() || stores_.full()) drop_frees_until(loaded_);
  return time;
}

template <>
int64_t Simulation::allocate<true>(int64_t time, int64_t size) {
  while (true) {
    int64_t request = FreeQueue::kNever;  // when the first pending store asks for the memory
    while (!pending_.empty() && (request = std::max(pending_.front().compute_end, stored_)) <= time) store_next();
    if (pending_.empty()) request = FreeQueue::kNever;
    while (computes_.next() <= time) room_ += computes_.pop();
    while (stores_.next() <= time) room_ += stores_.pop();
    if (room_ >= size) {
      room_ -= size;
      return time;
    }
    time = std::min({request, computes_.next(), stores_.next()});
  }
}

void Simulation::drop_frees_until(int64_t time) {
  while (computes_.next() <= time) room_ += computes_.pop();
  while (stores_.next() <= time) room_ += stores_.pop();
}

// Does the first pending store: no load can ask before it any more.
void Simulation::store_next() {
  const Pending store = pending_.front();
  pending_.pop_front();
  const int64_t start = std::max({store.compute_end, stored_, channel_});
  stored_ = channel_ = start + store.ticks;
  stores_.push(stored_, store.bytes);
  if (store.start != nullptr) *store.start = start, *store.end = stored_;
  ++certain_;
  for (; uncertain_ < positions_.size() && positions_[uncertain_].stores <= certain_; ++uncertain_)
    positions_[uncertain_].store_end = stored_;
}

int64_t Simulation::stores_end(const Position& position) const {
  if (position.stores <= certain_) return position.store_end;
  int64_t stored = stored_, channel = channel_;
  for (int64_t i = 0; i < position.stores - certain_; ++i) {
    const Pending& store = pending_[static_cast<std::size_t>(i)];
    stored = channel = std::max({store.compute_end, stored, channel}) + store.ticks;
  }
  return stored;
}

int64_t Simulation::complete(int64_t op) const {
  if (op < base_) return 0;
  const Position& before = positions_[static_cast<std::size_t>(op - base_)];
  const Position& after = positions_[static_cast<std::size_t>(op - base_) + 1];
  return after.stores > before.stores ? std::max(after.compute_end, stores_end(after)) : after.compute_end;
}

int64_t Simulation::frontier(int64_t op) const {
  if (op < base_) return 0;
  const Position& position = positions_[static_cast<std::size_t>(op - base_)];
  return std::max(position.compute_end, stores_end(position));
}

int64_t Simulation::settled() const {
  int64_t op = base_;
  while (op < operators() && frontier(op + 1) <= loaded_) ++op;
  return op;
}

void Simulation::forget(int64_t op) {
  const int64_t dropped = std::clamp<int64_t>(op - base_, 0, static_cast<int64_t>(positions_.size()) - 1);
  positions_.erase(positions_.begin(), positions_.begin() + dropped);
  base_ += dropped;
  uncertain_ = std::max(uncertain_, static_cast<std::size_t>(dropped)) - static_cast<std::size_t>(dropped);
}

void Simulation::write_pending() const {
  int64_t stored = stored_, channel = channel_;
  for (const Pending& store : pending_) {
    const int64_t start = std::max({store.compute_end, stored, channel});
    stored = channel = start + store.ticks;
    if (store.start != nullptr) *store.start = start, *store.end = stored;
  }
}

}  // namespace simdevice
