#include "Boxed.h"

#include "../recorder/Recorder.h"
#include "../runtime/Generator.h"
#include "../runtime/HostLimit.h"
#include "Alias.h"
#include "Plan.h"
#include "Typed.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <c10/util/flat_hash_map.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace simacc {
namespace {

using torch::jit::Stack;

const OpInfo kItem{"simacc.copy_to_host", {}};  // a scalar read is a copy to the host

// The tensors of one call: device originals beside the CPU aliases that stand in for them.
class Exchange {
 public:
  Exchange(const c10::OperatorHandle& op, const Plan& plan, Stack& stack)
      : op_(op), plan_(plan), stack_(stack), base_(stack.size() - plan.argument_count) {}

  // Replaces every device tensor on the stack by an alias, devices by cpu, generators by their host's.
  void to_host(Call* call) {
    find_device();
    for (const auto& argument : plan_.arguments) {
      auto& value = stack_[base_ + argument.index];
      switch (argument.kind) {
        case Plan::Kind::kTensor:
          if (value.isTensor() && value.toTensor().defined()) {
            value = replace(value.toTensor(), argument, call);
          }
          break;
        case Plan::Kind::kTensorList:
          if (!value.isNone()) {
            value = replace_list(value, argument, call);
          }
          break;
        case Plan::Kind::kOptionalTensorList:
          if (!value.isNone()) {
            value = replace_optional_list(value, argument, call);
          }
          break;
        case Plan::Kind::kDevice:
          if (!value.isNone()) {
            value = c10::Device(c10::kCPU);
          }
          break;
        case Plan::Kind::kGenerator:
          value = host_generator(value.isNone() ? at::Generator() : value.toGenerator(), device_);
          break;
      }
    }
  }

  // Replaces the results on the stack by device tensors: the originals where the call handed them
  // back, views where it returned a view, new storages otherwise.
  void to_device(Call* call) {
    for (const auto& pair : pairs_) {
      if (pair.argument->written) {
        adopt_layout(pair.original, pair.alias);
      }
    }
    const size_t count = plan_.returned_argument.size();
    for (size_t i = 0; i < count; ++i) {
      if (C10_UNLIKELY(plan_.returned_argument[i] == Plan::kOnHost)) {
        continue;
      }
      auto& value = stack_[stack_.size() - count + i];
      if (value.isTensor()) {
        if (value.toTensor().defined()) {
          value = result(value.toTensor(), plan_.returned_argument[i], call);
        }
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> out;
        for (const at::Tensor& t : value.toTensorVector()) {
          out.push_back(t.defined() ? result(t, plan_.returned_argument[i], call) : t);
        }
        value = std::move(out);
      }
    }
    if (call != nullptr) {
      for (const auto& pair : pairs_) {
        if (pair.argument->not_returned) {
          call->output(*pair.original.unsafeGetTensorImpl());
        }
      }
    }
  }

  // Whether an index is a mask, whose number of true elements only the data tells.
  bool has_mask() const {
    return has_mask_;
  }

  const at::Tensor* first() const {
    return pairs_.empty() ? nullptr : &pairs_.front().original;
  }

 private:
  struct Pair {
    at::Tensor original, alias;
    const Plan::Argument* argument;
  };

  // The call's device: its first device tensor's, else the one its Device argument names.
  void find_device() {
    for (const auto& argument : plan_.arguments) {
      const auto& value = stack_[base_ + argument.index];
      if (value.isTensor() && value.toTensor().defined() && on_device(value.toTensor())) {
        device_ = value.toTensor().device().index();
        return;
      }
      if (argument.kind == Plan::Kind::kDevice && value.isDevice() && value.toDevice().has_index()) {
        device_ = value.toDevice().index();
      }
    }
  }

  at::Tensor replace(const at::Tensor& tensor, const Plan::Argument& argument, Call* call) {
    if (C10_UNLIKELY(!on_device(tensor))) {
      check_host_tensor(tensor, argument);
      return tensor;
    }
    if (call != nullptr && argument.read) {
      call->input(*tensor.unsafeGetTensorImpl());
    }
    at::Tensor stand_in = argument.written ? own_host_view(tensor) : host_view(tensor);
    pairs_.push_back({tensor, stand_in, &argument});
    return stand_in;
  }

  c10::List<at::Tensor> replace_list(const c10::IValue& value, const Plan::Argument& argument, Call* call) {
    c10::List<at::Tensor> out;
    const auto tensors = value.toTensorVector();
    out.reserve(tensors.size());
    for (const auto& t : tensors) {
      out.push_back(t.defined() ? replace(t, argument, call) : t);
    }
    return out;
  }

  c10::List<std::optional<at::Tensor>> replace_optional_list(
      const c10::IValue& value, const Plan::Argument& argument, Call* call) {
    c10::List<std::optional<at::Tensor>> out;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector()) {
      if (t && t->defined()) {
        has_mask_ = has_mask_ || t->scalar_type() == c10::kBool || t->scalar_type() == c10::kByte;
        out.push_back(replace(*t, argument, call));
      } else {
        out.push_back(t);
      }
    }
    return out;
  }

  // Scalars that are only read may come from the host; other tensors may not, although a CPU kernel would take them.
  void check_host_tensor(const at::Tensor& tensor, const Plan::Argument& argument) const {
    if (tensor.device().is_cpu() && ((tensor.dim() == 0 && !argument.written) || argument.allows_cpu)) {
      return;
    }
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, simacc:",
        static_cast<int>(device_), " and ", tensor.device().str(), "! (when checking argument for argument ",
        op_.schema().arguments()[argument.index].name(), " in method ", plan_.info.name, ")");
  }

  at::Tensor result(const at::Tensor& host_result, int16_t from_argument, Call* call) {
    at::Tensor out = find_or_wrap(host_result, from_argument);
    if (call != nullptr) {
      call->output(*out.unsafeGetTensorImpl());
    }
    return out;
  }

  at::Tensor find_or_wrap(const at::Tensor& host_result, int16_t from_argument) {
    if (from_argument >= 0) {
      for (const auto& pair : pairs_) {
        if (pair.alias.is_same(host_result)) {
          return pair.original;
        }
      }
    }
    if (C10_LIKELY(host_result.has_storage())) {
      const auto* storage = host_result.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
      for (const auto& pair : pairs_) {
        if (pair.alias.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage) {
          return wrap_in(pair.original.storage(), host_result);
        }
      }
      for (const auto& [host, wrapped] : fresh_) {
        if (host == storage) {
          return wrap_in(wrapped, host_result);
        }
      }
    }
    at::Tensor out = wrap(host_result, device_);
    if (plan_.returned_argument.size() > 1) {
      fresh_.emplace_back(host_result.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), out.storage());
    }
    return out;
  }

  const c10::OperatorHandle& op_;
  const Plan& plan_;
  Stack& stack_;
  const size_t base_;
  c10::DeviceIndex device_ = 0;
  bool has_mask_ = false;
  c10::SmallVector<Pair, 4> pairs_;
  c10::SmallVector<std::pair<const c10::StorageImpl*, c10::Storage>, 0> fresh_;
};

void run(const c10::OperatorHandle& op, const Plan& plan, Stack* stack) {
  auto* recorder = plan.recorded ? Recorder::current() : nullptr;
  std::optional<Call> call;
  if (recorder != nullptr) {
    call.emplace(plan.reads_to_host ? kItem : plan.info);
    for (const auto& attribute : plan.info.attributes) {
      call->attribute((*stack)[stack->size() - plan.argument_count + attribute.argument]);
    }
  }
  Exchange exchange(op, plan, *stack);
  exchange.to_host(call ? &*call : nullptr);
  {
    const c10::impl::ExcludeDispatchKeyGuard below(kAboveKernels);
    const HostLimitScope limit;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  exchange.to_device(call ? &*call : nullptr);
  if (recorder != nullptr) {
    recorder->record(*call, plan.synchronizes || (plan.index_masks && exchange.has_mask()));
  }
}

class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(const Plan* plan) : plan_(plan) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
    run(op, *plan_, stack);
  }

 private:
  const Plan* plan_;
};

// A composite whose result lives on another device than its input is a copy, not a kernel.
class LikeKernel final : public c10::OperatorKernel {
 public:
  explicit LikeKernel(const Plan* plan) : plan_(plan) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
    for (const auto& argument : plan_->arguments) {
      const auto& value = (*stack)[stack->size() - plan_->argument_count + argument.index];
      if ((argument.kind == Plan::Kind::kDevice && value.isDevice() && value.toDevice().type() != kDeviceType) ||
          (argument.kind == Plan::Kind::kTensor && value.isTensor() && value.toTensor().defined() && !on_device(value.toTensor()))) {
        op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack);
        return;
      }
    }
    run(op, *plan_, stack);
  }

 private:
  const Plan* plan_;
};

AttributeTable& attribute_table() {
  static auto* table = new AttributeTable;
  return *table;
}

const Plan* make_plan(const c10::OperatorHandle& op) {
  auto* plan = new Plan(op);  // lives as long as the dispatcher: signatures point at its OpInfo
  const auto& table = attribute_table();
  const auto found =
      std::lower_bound(table.begin(), table.end(), plan->info.name, [](const auto& row, const std::string& n) { return row.first < n; });
  if (found != table.end() && found->first == plan->info.name) {
    for (const auto& name : found->second) {
      if (const auto index = op.schema().argumentIndexWithName(name)) {
        plan->info.attributes.push_back({static_cast<size_t>(*index), name});
      }
    }
  }
  return plan;
}

// Operators registered after the device: planned when first called.
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  static std::mutex mutex;
  static std::unordered_map<c10::OperatorName, const Plan*> plans;
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
          op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd),
      "Could not run '", op.operator_name(), "' on the 'simacc' device: it has no CPU kernel to compute with");
  const Plan* plan = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    auto& slot = plans[op.operator_name()];
    if (slot == nullptr) {
      slot = make_plan(op);
    }
    plan = slot;
  }
  run(op, *plan, stack);
}

// Operators with kernels of their own in Minimal.cpp and Composite.cpp, or left to their composite.
bool written_by_hand(const c10::OperatorName& name) {
  static const std::unordered_set<std::string> names{"aten::_copy_from", "aten::_copy_from_and_resize", "aten::_efficientzerotensor",
      "aten::_has_compatible_shallow_copy_type", "aten::_pin_memory", "aten::_reshape_alias", "aten::as_strided",
      "aten::copy_", "aten::empty", "aten::empty_strided", "aten::is_pinned", "aten::native_dropout", "aten::record_stream",
      "aten::set_", "aten::unfold", "aten::view", "aten::view_as_complex", "aten::view_as_real",
      // Composites whose parts are device operators already, or that only look at metadata.
      "aten::_fused_rms_norm", "aten::_spdiags", "aten::allclose", "aten::is_same_size", "aten::lift", "aten::lift_fresh",
      "aten::_resize_output_", "aten::resize", "aten::_assert_async", "aten::_print", "aten::sym_size", "aten::sym_numel",
      "aten::sym_stride", "aten::sym_storage_offset", "aten::_reshape_copy"};
  return names.count(name.name) != 0;
}

bool has_tensor(const c10::FunctionSchema& schema) {
  const auto is_tensor = [](const c10::Argument& a) { return a.type()->str().find("Tensor") != std::string::npos; };
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), is_tensor);
}

torch::Library& library() {
  static auto* lib = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  return *lib;
}

template <class Functor>
torch::CppFunction boxed(const Plan* plan) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Functor>(plan));
}

}  // namespace

void register_boxed_kernels(const AttributeTable& attributes) {
  attribute_table() = attributes;
  std::sort(attribute_table().begin(), attribute_table().end());
  const std::unordered_map<std::string, RegisterTyped> typed(typed_kernels().begin(), typed_kernels().end());
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0 || written_by_hand(name) || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
      continue;
    }
    const bool direct = op->hasKernelForDispatchKey(c10::DispatchKey::CPU);
    // Composites are taken whole, so that a trace names what the program called; views stay
    // composites of as_strided, and factories of empty, which checks the host's memory.
    const bool whole = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) && has_tensor(op->schema());
    if ((!direct && !whole) || returns_views(op->schema())) {
      continue;
    }
    const Plan* plan = make_plan(*op);
    const auto full_name = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    if (const auto found = typed.find(full_name); found != typed.end() && found->second(library(), name, plan)) {
      continue;
    }
    const bool names_device = std::any_of(
        plan->arguments.begin(), plan->arguments.end(), [](const auto& a) { return a.kind == Plan::Kind::kDevice; });
    library().impl(full_name.c_str() + 6, names_device && !direct ? boxed<LikeKernel>(plan) : boxed<Kernel>(plan));
  }
}

namespace {
void no_sparse_tensors(const c10::OperatorHandle& op, Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "simacc has no sparse tensors, which '", op.operator_name(),
      "' makes or takes; run this part on the CPU (.cpu()) and move the dense result back");
}
}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&no_sparse_tensors>());
}

}  // namespace simacc
