// A lock for sections of a few dozen instructions; a mutex would cost more than what it guards.
#pragma once

#include <atomic>
#include <thread>

namespace simacc {

class SpinLock {
 public:
  void lock() {
    for (int spins = 0; flag_.test_and_set(std::memory_order_acquire); ++spins) {
      if (spins > 64) {
        std::this_thread::yield();
      }
    }
  }
  void unlock() {
    flag_.clear(std::memory_order_release);
  }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

}  // namespace simacc
