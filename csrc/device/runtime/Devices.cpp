#include "Devices.h"

#include <c10/util/Exception.h>

#include <utility>

namespace simacc {
namespace {

thread_local c10::DeviceIndex of_this_thread = 0;

}  // namespace

c10::DeviceIndex current_device() {
  return of_this_thread;
}

void check_device_index(c10::DeviceIndex index) {
  TORCH_CHECK(index < kDeviceCount, "expected a simacc device index below ", static_cast<int>(kDeviceCount), ", got ",
      static_cast<int>(index));
}

c10::DeviceIndex index_or_current(c10::DeviceIndex index) {
  check_device_index(index);
  return index < 0 ? current_device() : index;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  return std::exchange(of_this_thread, index_or_current(index));
}

}  // namespace simacc
