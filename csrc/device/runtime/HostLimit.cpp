#include "HostLimit.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

namespace simacc {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

size_t read_number(const char* path) {
  std::ifstream file(path);
  size_t value = kUnlimited;  // "max", or no such file
  return (file >> value) ? value : kUnlimited;
}

size_t available_bytes() {
  size_t available = kUnlimited;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    size_t kib = 0;
    if (key == "MemAvailable:" && meminfo >> kib) {
      available = kib << 10;
      break;
    }
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const size_t limit = read_number("/sys/fs/cgroup/memory.max");
  const size_t current = read_number("/sys/fs/cgroup/memory.current");
  if (limit != kUnlimited && current != kUnlimited) {
    available = std::min(available, limit > current ? limit - current : 0);
  }
  return available;
}

class LimitedCpuAllocator final : public c10::Allocator {
 public:
  explicit LimitedCpuAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (C10_UNLIKELY(bytes >= kLargeAllocation && HostLimitScope::depth() > 0)) {
      check_host_can_hold(bytes);
    }
    return inner_->allocate(bytes);
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return inner_->raw_deleter();
  }

  void copy_data(void* destination, const void* source, size_t bytes) const final {
    inner_->copy_data(destination, source, bytes);
  }

 private:
  c10::Allocator* inner_;
};

}  // namespace

void check_host_can_hold(size_t bytes) {
  const size_t available = available_bytes();
  TORCH_CHECK_WITH(OutOfMemoryError, bytes <= available, "simacc keeps device memory in host memory: an allocation of ",
      bytes >> 20, " MiB is more than the ", available >> 20,
      " MiB this host still has; trace the model without weights (meta device) or use a larger host");
}

void install_host_limit() {
  static LimitedCpuAllocator limited(c10::GetCPUAllocator());
  c10::SetCPUAllocator(&limited);
}

}  // namespace simacc
