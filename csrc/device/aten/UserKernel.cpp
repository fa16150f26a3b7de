#include "UserKernel.h"

#include "HostCall.h"
#include "Plan.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>

namespace simacc {
namespace {

using torch::jit::Stack;

constexpr auto kDispatchKey = c10::DispatchKey::PrivateUse1;

// While one lives, this thread records nothing: what the user's kernel calls is how it computes, not what the device
// does.
class Pause {
 public:
  Pause() {
    ++thread_state().paused;
  }
  ~Pause() {
    --thread_state().paused;
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
};

template <class Each>
void for_each_tensor(const c10::IValue& value, Each each) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      each(value.toTensor());
    }
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) {
      each(t);
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      for_each_tensor(item, each);
    }
  }
}

class UserKernel final : public c10::OperatorKernel {
 public:
  UserKernel(const Plan* plan, c10::SafeKernelFunction kernel) : plan_(plan), kernel_(std::move(kernel)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const size_t base = stack->size() - plan_->argument_count;
    HostCall call(plan_->op, plan_->recorded ? &plan_->op.info() : nullptr, [&](size_t i) { return (*stack)[base + i]; });
    std::vector<at::Tensor> written;
    for (const auto& argument : plan_->arguments) {
      const auto& value = (*stack)[base + argument.index];
      if (argument.kind == Plan::Kind::kDevice && value.isDevice()) {
        call.go_to(index_or_current(value.toDevice().index()));
      }
      for_each_tensor(value, [&](const at::Tensor& t) {
        call.input(t, argument.read);
        if (argument.not_returned) {
          written.push_back(t);
        }
      });
    }
    {
      const Pause pause;
      kernel_.callBoxed(op, keys, stack);
    }
    const size_t returns = op.schema().returns().size();
    for (size_t i = 0; i < returns; ++i) {
      for_each_tensor((*stack)[stack->size() - returns + i], [&](const at::Tensor& t) {
        TORCH_CHECK(on_device(t), "the kernel that was registered for ", plan_->op.name,
            " on simacc gave a tensor on ", t.device(), "; expected one on ",
            c10::Device(kDeviceType, call.device()), " (.to(...) it before returning)");
        call.output(t);
      });
    }
    for (const auto& t : written) {
      if (on_device(t)) {
        call.output(t);
      }
    }
    call.record(plan_->synchronizes);
  }

 private:
  const Plan* plan_;
  const c10::SafeKernelFunction kernel_;
};

// Every kernel says which file registered it; ours are in this folder.
bool is_ours(const std::string& registered) {
  static const std::string folder = [] {
    const std::string file = __FILE__;
    return file.substr(0, file.rfind('/') + 1);
  }();
  return registered.find(folder) != std::string::npos;
}

// Over theirs, PyTorch would warn that a kernel replaces another one: here it only watches it.
class Silence final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

std::mutex& mutex() {
  static auto* m = new std::mutex;
  return *m;
}

// By number, which only grows: an operator may have several, one over each library's kernel.
std::map<int64_t, std::unique_ptr<torch::Library>>& watched() {
  static auto* w = new std::map<int64_t, std::unique_ptr<torch::Library>>;
  return *w;
}

int64_t watch(const c10::OperatorName& name) {
  const auto op = c10::Dispatcher::singleton().findSchema(name);
  if (!op || !op->hasKernelForDispatchKey(kDispatchKey)) {
    return 0;
  }
  auto kernel = op->getComputedKernelForDispatchKey(kDispatchKey);
  if (is_ours(kernel.debug())) {
    return 0;
  }
  const auto* plan = new Plan(*op);  // as long as rows name its operator
  const auto colon = name.name.find("::");
  const auto in_namespace = name.name.substr(colon + 2) + (name.overload_name.empty() ? "" : "." + name.overload_name);
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard silent(&silence);
  auto library = std::make_unique<torch::Library>(
      torch::Library::IMPL, name.name.substr(0, colon), kDispatchKey, __FILE__, __LINE__);
  library->impl(in_namespace.c_str(),
      torch::CppFunction::makeFromBoxedFunctor(std::make_unique<UserKernel>(plan, std::move(kernel))));
  const std::lock_guard<std::mutex> lock(mutex());
  static int64_t last = 0;
  watched()[++last] = std::move(library);
  return last;
}

}  // namespace

int64_t record_user_kernel(const std::string& full_name) {
  const auto dot = full_name.find('.');
  return watch(dot == std::string::npos ? c10::OperatorName(full_name, "")
                                        : c10::OperatorName(full_name.substr(0, dot), full_name.substr(dot + 1)));
}

void record_user_kernels() {
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    watch(name);
  }
}

void forget_user_kernel(int64_t number) {
  std::unique_ptr<torch::Library> gone;  // destroyed without the mutex
  const std::lock_guard<std::mutex> lock(mutex());
  if (const auto known = watched().find(number); known != watched().end()) {
    gone = std::move(known->second);
    watched().erase(known);
  }
}

}  // namespace simacc
