// What the tape knows of memory: serial numbers. Nothing here or beside it knows how memory is held.
#pragma once

#include <atomic>
#include <cstdint>

namespace simacc {

// The next serial number, never reused, shared by storages and events so that a trace has one id space.
inline int64_t next_id() {
  static std::atomic<int64_t> serial{0};
  return serial.fetch_add(1, std::memory_order_relaxed);
}

// As many devices as a process can have: what is kept for each of them stands in arrays of this length.
inline constexpr int kMostDevices = 16;

// A tensor's storage in a row: its number (-1: memory that PyTorch only borrowed), and whether a parameter lives there.
struct StorageMark {
  int64_t id = -1;
  bool weight = false;
};

}  // namespace simacc
