// A hash map from non-negative integers to integers, in one array: storages to their writers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simdevice {

class FlatMap {
 public:
  static constexpr int64_t kAbsent = -1;

  FlatMap() : slots_(256) {}

  int64_t find(int64_t key) const { return slots_[place(key)].value; }

  void set(int64_t key, int64_t value) {
    Slot& slot = slots_[place(key)];
    if (slot.key < 0) {
      slot = {key, value};
      if (2 * ++used_ > slots_.size()) rebuild([](int64_t) { return true; });
    } else {
      slot.value = value;
    }
  }

  // The key stays, without a value, until the next rebuild.
  void erase(int64_t key) { slots_[place(key)].value = kAbsent; }

  // Drops every entry whose value fails the test.
  template <typename Keep>
  void keep_if(Keep keep) {
    rebuild(keep);
  }

 private:
  struct Slot {
    int64_t key = -1, value = kAbsent;
  };

  std::size_t place(int64_t key) const {
    std::size_t at = (static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u) >> 32;
    while (slots_[at & (slots_.size() - 1)].key >= 0 && slots_[at & (slots_.size() - 1)].key != key) ++at;
    return at & (slots_.size() - 1);
  }

  template <typename Keep>
  void rebuild(Keep keep) {
    std::vector<Slot> old(256);
    std::size_t kept = 0;
    for (const Slot& slot : slots_) kept += slot.value != kAbsent && keep(slot.value);
    while (old.size() < 4 * kept) old.resize(2 * old.size());
    old.swap(slots_);
    used_ = kept;
    for (const Slot& slot : old)
      if (slot.value != kAbsent && keep(slot.value)) slots_[place(slot.key)] = slot;
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t used_ = 0;
};

}  // namespace simdevice
