#include "Autograd.h"

#include "Devices.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <thread>

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

}  // namespace

void settle_autograd() {
  std::thread plain([] {
    for (c10::DeviceIndex index = 0; index < kDeviceCount; ++index) {
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
