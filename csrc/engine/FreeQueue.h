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

  FreeQueue() : ring_(64), mask_(ring_.size() - 1) {}

  int64_t next() const { return head_ == tail_ ? kNever : ring_[head_ & mask_].time; }

  // Bytes of the entry that next() is the time of; removes it.
  int64_t pop() { return ring_[head_++ & mask_].bytes; }

  void push(int64_t time, int64_t bytes) {
    if (full()) [[unlikely]]
      grow();
    ring_[tail_++ & mask_] = {time, bytes};
  }

  std::size_t size() const { return tail_ - head_; }
  bool full() const { return tail_ - head_ > mask_; }

 private:
  struct Entry {
    int64_t time, bytes;
  };

  // Out of line, so that push is not.
  [[gnu::noinline]] void grow() {
    std::vector<Entry> larger(2 * ring_.size());
    for (std::size_t i = head_; i != tail_; ++i) larger[i & (larger.size() - 1)] = ring_[i & mask_];
    ring_.swap(larger);
    mask_ = ring_.size() - 1;
  }

  std::vector<Entry> ring_;  // a power of two
  std::size_t mask_, head_ = 0, tail_ = 0;
};

}  // namespace simdevice
