// Composites whose tensors live on more devices than one: made of copies and of each device's kernels.
#pragma once

#include "../runtime/Devices.h"
#include "Plan.h"

#include <ATen/core/stack.h>

#include <optional>

namespace simacc {

// Which devices make a composite more than one kernel.
enum class Crossing : uint8_t {
  kAny,     // all others than one simacc device: it copies
  kSimacc,  // another simacc device: each list's tensors are computed where they are, and numbers may be on the host
};

// The devices that an argument names or is on; a simacc device without an index is this thread's.
template <typename Meet>
void devices_of(const Plan::Argument& argument, const c10::IValue& value, const Meet& meet) {
  if (argument.kind == Plan::Kind::kDevice && value.isDevice()) {
    const auto device = value.toDevice();
    meet(device.type() == kDeviceType ? c10::Device(kDeviceType, index_or_current(device.index())) : device);
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) {
      meet(t.device());
    }
  } else if (value.isTensor() && value.toTensor().defined()) {
    meet(value.toTensor().device());
  }
}

// Whether the arguments on top of the stack are on devices that make the call more than one kernel.
inline bool crosses_links(const Plan& plan, const torch::jit::Stack& stack, Crossing crossing) {
  if (crossing == Crossing::kSimacc && device_count() == 1) {
    return false;
  }
  std::optional<c10::Device> device;
  bool one = true;
  const auto meet = [&](c10::Device next) {
    if (crossing == Crossing::kSimacc && next.type() != kDeviceType) {
      return;
    }
    one = one && next.type() == kDeviceType && (!device || *device == next);
    device = next;
  };
  for (const auto& argument : plan.arguments) {
    devices_of(argument, stack[stack.size() - plan.argument_count + argument.index], meet);
  }
  return !one;
}

}  // namespace simacc
