// Device memory lives in host memory, so an "80 GB" device must not take the machine down: large
// allocations are refused before the host runs out, with a message of their own.
#pragma once

#include <cstddef>

namespace simacc {

inline constexpr size_t kLargeAllocation = size_t{256} << 20;

// Raises OutOfMemoryError when `bytes` exceed what the host can still give.
void check_host_can_hold(size_t bytes);

// While one lives on this thread, CPU allocations of kLargeAllocation or more are checked too:
// CPU kernels allocate the results that the device then adopts.
class HostLimitScope {
 public:
  HostLimitScope() : depth_(depth()) {
    ++depth_;
  }
  ~HostLimitScope() {
    --depth_;
  }
  HostLimitScope(const HostLimitScope&) = delete;
  HostLimitScope& operator=(const HostLimitScope&) = delete;

  static int& depth() {
    static thread_local int nested = 0;
    return nested;
  }

 private:
  int& depth_;  // looking a thread's variable up takes a call
};

// Puts the check in front of PyTorch's CPU allocator. Called once when the device is initialised.
void install_host_limit();

}  // namespace simacc
