// What PyTorch's generic code asks of an accelerator.
#include "Hooks.h"

#include "Announced.h"
#include "Block.h"
#include "Generator.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <map>

namespace simacc {
namespace {

// Pinned memory is host memory that remembers being asked for as pinned.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto inner = c10::GetCPUAllocator()->allocate(bytes);
    void* data = inner.get();
    if (data == nullptr) {
      return inner;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex());
      ranges()[data] = bytes;
    }
    return {data, new c10::DataPtr(std::move(inner)), &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }
  void copy_data(void* destination, const void* source, size_t bytes) const final {
    default_copy_data(destination, source, bytes);
  }

  static bool contains(const void* pointer) {
    const std::lock_guard<std::mutex> lock(mutex());
    auto after = ranges().upper_bound(pointer);
    if (after == ranges().begin()) {
      return false;
    }
    const auto& [start, bytes] = *std::prev(after);
    return static_cast<const char*>(pointer) < static_cast<const char*>(start) + bytes;
  }

 private:
  static void release(void* context) {
    auto* inner = static_cast<c10::DataPtr*>(context);
    {
      const std::lock_guard<std::mutex> lock(mutex());
      ranges().erase(inner->get());
    }
    delete inner;
  }
  static std::mutex& mutex() {
    static auto* m = new std::mutex;
    return *m;
  }
  static std::map<const void*, size_t>& ranges() {
    static auto* r = new std::map<const void*, size_t>;
    return *r;
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return device_count();
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    exchange_device(device);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return current_device();
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return exchange_device(device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchange_device(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return new_generator(device);
  }
  at::Device getDeviceFromPtr(void*) const override {
    return {kDeviceType, current_device()};  // every device's memory is the host's
  }
  bool isPinnedPtr(const void* data) const override {
    return PinnedAllocator::contains(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    // PyTorch's own words where there is no accelerator: a program that never named simacc has none.
    TORCH_CHECK(announced(), "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator ",
        "is available on this system.");
    static auto* allocator = new PinnedAllocator;
    return allocator;
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto& impl = *storage.unsafeGetStorageImpl();
    at::native::resize_bytes_cpu(host_storage(impl).unsafeGetStorageImpl(), bytes);
    refresh(impl);
  }
};

}  // namespace

void register_hooks() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace simacc
