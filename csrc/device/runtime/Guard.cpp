// Current device and stream, and events: what torch.Stream, torch.Event and torch.accelerator call.
//
// Each device has one in-order queue. A stream adds dependencies (wait_event), never overlap; an event
// is a position in a device's queue whose time is the completion frontier there.
#include "../recorder/Recorder.h"
#include "Announced.h"
#include "Devices.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace simacc {
namespace {

struct EventHandle {
  std::shared_ptr<Mark> mark;
};

EventHandle* handle(void* event) {
  return static_cast<EventHandle*>(event);
}

class GuardImpl final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override {
    return kDeviceType;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    check_type(device);
    return {kDeviceType, exchange_device(device.index())};
  }
  c10::Device getDevice() const override {
    return {kDeviceType, current_device()};
  }
  void setDevice(c10::Device device) const override {
    check_type(device);
    exchange_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    exchange_device(device.index());  // it was this thread's before, so that it cannot raise
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return announced_devices();
  }

  // Every type that the CPU computes with; quantized tensors are not there.
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    check_device_index(device.index());
    c10::DeviceCapability capability;
    for (const auto quantized : {c10::kIndex_QInt8, c10::kIndex_QUInt8, c10::kIndex_QInt32, c10::kIndex_QUInt4x2,
             c10::kIndex_QUInt2x4}) {
      capability.capability_data.capability_bits &= ~(uint64_t{1} << quantized);
    }
    return capability;
  }

  c10::Stream getStream(c10::Device device) const override {
    const auto at = indexed(device);
    return c10::Stream(c10::Stream::UNSAFE, at, thread_state().streams.at(at.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, indexed(device));
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return c10::Stream(c10::Stream::UNSAFE, indexed(device), next_id() + 1);  // 0 is the default stream
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto before = getStream(stream.device());
    thread_state().streams.at(before.device_index()) = stream.id();
    return before;
  }
  // What libraries in C launch into (DLPack's exchange table asks): device memory is the host's, and always up to date.
  void* getStreamNativeHandle(const c10::Stream) const override {
    return nullptr;
  }
  bool queryStream(const c10::Stream&) const override {
    return true;  // see queryEvent
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    synchronizeDevice(stream.device_index());  // a device has one queue
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    const auto device = index_or_current(index);
    if (auto* recorder = Recorder::current()) {
      recorder->synchronize(device);
    }
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) {
      *event = new EventHandle;
    }
    handle(*event)->mark = Recorder::innermost()->record_event(index_or_current(stream.device_index()));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr && handle(event)->mark != nullptr) {
      Recorder::innermost()->wait_event(handle(event)->mark,
          c10::Stream(c10::Stream::UNSAFE, indexed(stream.device()), stream.id()));
    }
  }
  // Host time does not pass while a program polls, so an answer of "not yet" could never change.
  bool queryEvent(void*) const override {
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr && handle(event)->mark != nullptr) {
      Recorder::innermost()->synchronize_event(*handle(event)->mark);
    }
  }
  // Simulated milliseconds.
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    return static_cast<double>(event_ps(*handle(end)->mark) - event_ps(*handle(start)->mark)) / 1e9;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete handle(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

 private:
  static c10::Device indexed(c10::Device device) {
    return {kDeviceType, index_or_current(device.index())};
  }
  static void check_type(c10::Device device) {
    TORCH_CHECK(device.type() == kDeviceType, "expected a simacc device, got ", device);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

}  // namespace
}  // namespace simacc
