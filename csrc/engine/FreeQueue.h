// Buffer space that comes free at times that never decrease: a ring that grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace simdevice {

class FreeQueue {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  FreeQueue() : ring_(64) {}

  int64_t next() const { return head_ == tail_ ? kNever : ring_[head_ & mask()].time; }

  // Bytes of the entry that next() is the time of; removes it.
  int64_t pop() { return ring_[head_++ & mask()].bytes; }

  void push(int64_t time, int64_t bytes) {
    if (tail_ - head_ == ring_.size()) grow();
    ring_[tail_++ & mask()] = {time, bytes};
  }

  std::size_t size() const { return tail_ - head_; }
  bool full() const { return tail_ - head_ == ring_.size(); }

 private:
  struct Entry {
    int64_t time, bytes;
  };

  std::size_t mask() const { return ring_.size() - 1; }

  void grow() {
    std::vector<Entry> larger(2 * ring_.size());
    for (std::size_t i = head_; i != tail_; ++i) larger[i & (larger.size() - 1)] = ring_[i & mask()];
    ring_.swap(larger);
  }

  std::vector<Entry> ring_;  // a power of two
  std::size_t head_ = 0, tail_ = 0;
};

}  // namespace simdevice
