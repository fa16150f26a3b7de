#include "Devices.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <utility>

namespace simacc {
namespace {

std::atomic<c10::DeviceIndex> count_of_devices{1};
thread_local c10::DeviceIndex of_this_thread = 0;

}  // namespace

c10::DeviceIndex device_count() {
  return count_of_devices.load(std::memory_order_relaxed);
}

void set_device_count(c10::DeviceIndex count) {
  TORCH_CHECK(count >= 1 && count <= kMostDevices, "expected 1 to ", kMostDevices, " simacc devices, got ",
      static_cast<int>(count));
  count_of_devices = count;
}

c10::DeviceIndex current_device() {
  return C10_LIKELY(of_this_thread < device_count()) ? of_this_thread : 0;  // its device may have gone
}

void check_device_index(c10::DeviceIndex index) {
  TORCH_CHECK(index < device_count(), "expected a simacc device index below ", static_cast<int>(device_count()),
      ", got ", static_cast<int>(index), "; torch.simacc.configure(devices=", static_cast<int>(index) + 1,
      ") makes as many");
}

c10::DeviceIndex index_or_current(c10::DeviceIndex index) {
  check_device_index(index);
  return index < 0 ? current_device() : index;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const auto before = current_device();
  of_this_thread = index_or_current(index);
  return before;
}

}  // namespace simacc
