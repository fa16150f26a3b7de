// Which devices there are, and which one a thread uses.
#pragma once

#include "../recorder/Ids.h"

#include <c10/core/Device.h>

namespace simacc {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;

// How many devices there are, at most kMostDevices (recorder/Ids.h).
c10::DeviceIndex device_count();

// From now on there are this many. Whoever calls it knows that nothing lives on those that go.
void set_device_count(c10::DeviceIndex count);

// This thread's device: what work without a device of its own goes to.
c10::DeviceIndex current_device();

// Raises for an index that no device has.
void check_device_index(c10::DeviceIndex index);

// The index itself, or this thread's device where there is none (-1). Raises for an index that no device has.
c10::DeviceIndex index_or_current(c10::DeviceIndex index);

// Makes a device this thread's; gives the one before. -1 changes nothing.
c10::DeviceIndex exchange_device(c10::DeviceIndex index);

// While one lives, a device is this thread's.
class DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex index) : before_(exchange_device(index)) {}
  ~DeviceScope() {
    exchange_device(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const c10::DeviceIndex before_;
};

}  // namespace simacc
