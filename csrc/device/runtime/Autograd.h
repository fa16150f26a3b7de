// The autograd engine's thread of a device, which a CPU program does not have.
#pragma once

#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>

namespace simacc {

// Returns when the engine's device threads have let go of every backward pass that has ended, and hold no Python
// object any more. To be called without the interpreter's lock, before Python finalizes.
void settle_autograd();

// How often the program has set the number of the host's threads.
inline std::atomic<uint32_t> thread_settings{0};
void take_thread_setting();

// PyTorch sets that number for the calling thread and threads that start later; a backward pass would go on with the
// number that its device's thread started with, and sum in another order than on a CPU, where it runs in the caller's.
inline void follow_thread_setting() {
  thread_local uint32_t seen = 0;
  const auto now = thread_settings.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(now != seen)) {
    seen = now;
    take_thread_setting();
  }
}

// Lets backward passes run on devices that are new since the engine began. Where it has not begun, nothing is to be done;
// to be called in a process that has the engine's threads, not in one that was forked.
void follow_devices_in_autograd();

}  // namespace simacc
