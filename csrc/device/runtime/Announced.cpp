#include "Announced.h"

#include "Devices.h"

#include <torch/csrc/autograd/engine.h>

#include <atomic>

namespace simacc {
namespace {

std::atomic<bool> told{false};
std::atomic<bool> asked_before{false};

// The engine starts its devices' threads once, at the process's first backward pass, and never for a device that comes
// later. What starts them is not public, and a derived class may name it.
struct Engine : torch::autograd::Engine {
  static void start_threads(torch::autograd::Engine& engine) {
    (engine.*(&Engine::start_device_threads))();
  }
  static bool started(const torch::autograd::Engine& engine) {
    return engine.*(&Engine::thread_pool_shared_) != nullptr;
  }
};

}  // namespace

bool announced() {
  return told.load(std::memory_order_acquire);
}

c10::DeviceIndex announced_devices() {
  if (announced()) {
    return device_count();
  }
  asked_before.store(true, std::memory_order_relaxed);  // by the engine, perhaps, in this process or before a fork
  return 0;
}

void announce(bool late) {
  if (announced()) {
    return;
  }
  auto& engine = torch::autograd::Engine::get_default_engine();
  if (!late && !asked_before.load(std::memory_order_relaxed) && !Engine::started(engine)) {
    told.store(true, std::memory_order_release);
    return;  // the first backward pass will find the device
  }
  engine.initialize_device_threads_pool();  // without any, where that has not happened: so it can't happen twice
  told.store(true, std::memory_order_release);
  Engine::start_threads(engine);
}

}  // namespace simacc
