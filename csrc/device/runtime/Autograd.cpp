#include "Autograd.h"

#include "Devices.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace simacc {
namespace {

// A backward pass ends for its caller before the device's thread drops the pass itself, and with it Python objects of
// the caller's thread-local state, for which it takes the interpreter's lock. Where Python is finalizing by then, CPython
// ends the thread in the middle of a destructor, and the process aborts. A device's thread takes its tasks in order: when
// it has run one more, it has dropped all before. That one comes from a thread which has no Python state, so dropping it
// needs no lock.
void one_more_pass(c10::DeviceIndex index) {
  const at::AutoGradMode with_gradients(true);
  const at::Tensor leaf =
      at::zeros({1}, at::TensorOptions().device(c10::Device(kDeviceType, index))).set_requires_grad(true);
  torch::autograd::backward({leaf.sum()});
}

// Where the engine keeps a queue per device index, for its own classes to see.
struct Queues : torch::autograd::Engine {
  static constexpr auto kMember = &Queues::device_ready_queues_;
};

}  // namespace

// The engine makes its queues and threads when the first backward pass of the process begins, as many as there are
// devices then. What it does there is done here for those that come later.
void follow_devices_in_autograd() {
  auto& engine = torch::autograd::Engine::get_default_engine();
  auto& queues = engine.*Queues::kMember;
  const auto before = queues.size(), after = static_cast<size_t>(device_count());
  if (before == 0 || before >= after) {
    return;
  }
  auto more = queues;
  more.reserve(kMostDevices);
  while (more.size() < after) {
    more.push_back(std::make_shared<torch::autograd::ReadyQueue>());
  }
  // The engine reads the list without a lock: a pass that runs in another thread goes on with the old one.
  static auto* const old = new std::vector<std::vector<std::shared_ptr<torch::autograd::ReadyQueue>>>;
  queues.swap(more);
  old->push_back(std::move(more));
  for (size_t index = before; index < after; ++index) {
    std::thread(&torch::autograd::Engine::thread_init, &engine, static_cast<int>(index), queues[index], true).detach();
  }
}

void settle_autograd() {
  // Devices that are gone may have threads: there they are again, so that a pass can be run through each.
  const auto threads = (torch::autograd::Engine::get_default_engine().*Queues::kMember).size();
  set_device_count(std::max(device_count(), static_cast<c10::DeviceIndex>(threads)));
  std::thread plain([] {
    for (c10::DeviceIndex index = 0; index < device_count(); ++index) {
      try {
        one_more_pass(index);
      } catch (const c10::Error&) {
        // After a fork the engine has no threads and says so: then there is nothing to wait for.
      }
    }
  });
  plain.join();
}

void take_thread_setting() {
  if (torch::autograd::get_current_node() != nullptr) {  // all others chose for themselves
    at::init_num_threads();
  }
}

}  // namespace simacc
