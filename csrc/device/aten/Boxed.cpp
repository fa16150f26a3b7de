#include "Boxed.h"

#include "../runtime/Generator.h"
#include "Crossing.h"
#include "HostCall.h"
#include "Plan.h"
#include "Refusals.h"
#include "Typed.h"

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

const OpInfo kItem{"simacc.copy_to_host"};  // a scalar read is a copy to the host

// The tensors of one call: device originals beside the CPU aliases that stand in for them.
class Exchange {
 public:
  Exchange(HostCall& call, const Plan& plan, Stack& stack)
      : call_(call), plan_(plan), stack_(stack), base_(stack.size() - plan.argument_count) {}

  // Replaces every device tensor on the stack by an alias, devices by cpu, generators by their host's.
  void to_host() {
    find_device();
    for (const auto& argument : plan_.arguments) {
      auto& value = stack_[base_ + argument.index];
      switch (argument.kind) {
        case Plan::Kind::kTensor:
          if (value.isTensor() && value.toTensor().defined()) {
            value = replace(value.toTensor(), argument);
          }
          break;
        case Plan::Kind::kTensorList:
          if (!value.isNone()) {
            value = replace_list(value, argument);
          }
          break;
        case Plan::Kind::kOptionalTensorList:
          if (!value.isNone()) {
            value = replace_optional_list(value, argument);
          }
          break;
        case Plan::Kind::kDevice:
          if (!value.isNone()) {
            value = c10::Device(c10::kCPU);
          }
          break;
        case Plan::Kind::kGenerator:
          value = host_generator(value.isNone() ? at::Generator() : value.toGenerator(), call_.device());
          break;
      }
    }
  }

  // Replaces the results on the stack by device tensors: the originals where the call handed them
  // back, views where it returned a view, new storages otherwise.
  void to_device() {
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
          value = result(value.toTensor(), plan_.returned_argument[i]);
        }
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> out;
        for (const at::Tensor& t : value.toTensorVector()) {
          out.push_back(t.defined() ? result(t, plan_.returned_argument[i]) : t);
        }
        value = std::move(out);
      }
    }
    for (const auto& pair : pairs_) {
      if (pair.argument->not_returned) {
        call_.output(pair.original);
      }
    }
  }

  // Whether an index is a mask, whose number of true elements only the data tells.
  bool has_mask() const {
    return has_mask_;
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
        call_.go_to(value.toTensor().device().index());
        return;
      }
      if (argument.kind == Plan::Kind::kDevice && value.isDevice() && value.toDevice().has_index()) {
        call_.go_to(index_or_current(value.toDevice().index()));
      }
    }
  }

  at::Tensor replace(const at::Tensor& tensor, const Plan::Argument& argument) {
    const auto others = argument.allows_cpu ? HostCall::Others::kHost : HostCall::Others::kScalars;
    at::Tensor stand_in = call_.before(tensor, argument.index, {argument.read, argument.written, others});
    if (C10_LIKELY(on_device(tensor))) {
      pairs_.push_back({tensor, stand_in, &argument});
    }
    return stand_in;
  }

  c10::List<at::Tensor> replace_list(const c10::IValue& value, const Plan::Argument& argument) {
    c10::List<at::Tensor> out;
    const auto tensors = value.toTensorVector();
    out.reserve(tensors.size());
    for (const auto& t : tensors) {
      out.push_back(t.defined() ? replace(t, argument) : t);
    }
    return out;
  }

  c10::List<std::optional<at::Tensor>> replace_optional_list(const c10::IValue& value, const Plan::Argument& argument) {
    c10::List<std::optional<at::Tensor>> out;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector()) {
      if (t && t->defined()) {
        has_mask_ = has_mask_ || t->scalar_type() == c10::kBool || t->scalar_type() == c10::kByte;
        out.push_back(replace(*t, argument));
      } else {
        out.push_back(t);
      }
    }
    return out;
  }

  at::Tensor result(const at::Tensor& host_result, int16_t from_argument) {
    if (auto known = original_or_view(host_result, from_argument); known.defined()) {
      call_.output(known);
      return known;
    }
    at::Tensor out = call_.after(host_result);
    if (plan_.returned_argument.size() > 1) {
      fresh_.emplace_back(host_result.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), out.storage());
    }
    return out;
  }

  // Undefined: a result over bytes of its own.
  at::Tensor original_or_view(const at::Tensor& host_result, int16_t from_argument) {
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
    return {};
  }

  HostCall& call_;
  const Plan& plan_;
  Stack& stack_;
  const size_t base_;
  bool has_mask_ = false;
  c10::SmallVector<Pair, 4> pairs_;
  c10::SmallVector<std::pair<const c10::StorageImpl*, c10::Storage>, 0> fresh_;
};

void run(const c10::OperatorHandle& op, const Plan& plan, Stack* stack, c10::DispatchKey kernel = c10::DispatchKey::CPU) {
  const OpInfo* as = !plan.recorded ? nullptr : plan.reads_to_host ? &kItem : &plan.op.info();
  HostCall call(plan.op, as, [&](size_t i) { return (*stack)[stack->size() - plan.argument_count + i]; });
  Exchange exchange(call, plan, *stack);
  exchange.to_host();
  call.compute([&] { op.redispatchBoxed(c10::DispatchKeySet(kernel), stack); });
  exchange.to_device();
  call.record(plan.synchronizes || (plan.index_masks && exchange.has_mask()));
}

template <c10::DispatchKey kernel = c10::DispatchKey::CPU>
class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(const Plan* plan) : plan_(plan) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
    run(op, *plan_, stack, kernel);
  }

 private:
  const Plan* plan_;
};

// A composite whose tensors live on more devices than one is made of copies and kernels, not a kernel.
template <Crossing crossing>
class OneDeviceKernel final : public c10::OperatorKernel {
 public:
  explicit OneDeviceKernel(const Plan* plan) : plan_(plan) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
    if (crosses_links(*plan_, *stack, crossing)) {
      op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack);
    } else {
      run(op, *plan_, stack);
    }
  }

 private:
  const Plan* plan_;
};

// Operators registered after the device, and those of nested tensors: planned when first called.
template <c10::DispatchKey kernel>
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  static std::mutex mutex;
  static std::unordered_map<c10::OperatorName, const Plan*> plans;
  const bool composite = kernel == c10::DispatchKey::CPU &&
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
  if (!composite && !op.hasKernelForDispatchKey(kernel)) {
    refuse_operator(c10::toString(op.operator_name()), kernel == c10::DispatchKey::CPU ? "" : "nested ");
  }
  const auto plan_of = [&](const Plan* otherwise) {
    const std::lock_guard<std::mutex> lock(mutex);
    auto& slot = plans[op.operator_name()];
    return slot = slot == nullptr ? otherwise : slot;
  };
  const Plan* plan = plan_of(nullptr);
  if (C10_UNLIKELY(plan == nullptr)) {
    plan = plan_of(new Plan(op));  // without the mutex: it takes the interpreter's lock
  }
  run(op, *plan, stack, kernel);
}

constexpr char kSparse[] = "sparse", kQuantized[] = "quantized";

template <const char* Kind>
void no_tensors(const c10::OperatorHandle& op, Stack* /*stack*/) {
  refuse_tensors(Kind, canonical_name(op.operator_name()));
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

template <class Functor>
torch::CppFunction boxed(const Plan* plan) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Functor>(plan));
}

template <c10::DispatchKey key = c10::DispatchKey::PrivateUse1>
torch::Library& library() {
  static auto* lib = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  return *lib;
}

// The CPU's kernels for nested tensors, where a composite would come before the fallback.
void register_nested(const c10::OperatorHandle& op, const c10::OperatorName& name) {
  constexpr auto ours = c10::DispatchKey::NestedTensorPrivateUse1, theirs = c10::DispatchKey::NestedTensorCPU;
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) && op.hasKernelForDispatchKey(theirs) &&
      !op.hasKernelForDispatchKey(ours)) {
    library<ours>().impl(c10::toString(name).c_str() + 6, boxed<Kernel<theirs>>(new Plan(op)));
  }
}

}  // namespace

void register_kernels() {
  Operator::find_schemas();
  const std::unordered_map<std::string, RegisterTyped> typed(typed_kernels().begin(), typed_kernels().end());
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0) {
      continue;
    }
    register_nested(*op, name);
    if (written_by_hand(name) || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
      continue;
    }
    const bool direct = op->hasKernelForDispatchKey(c10::DispatchKey::CPU);
    // Composites are taken whole, so that a trace names what the program called; views stay
    // composites of as_strided, and factories of empty, which checks the host's memory.
    const bool whole = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) && has_tensor(op->schema());
    if ((!direct && !whole) || returns_views(op->schema())) {
      continue;
    }
    const Plan* plan = new Plan(*op);  // as long as the dispatcher
    const auto full_name = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    if (const auto found = typed.find(full_name); found != typed.end()) {
      found->second(library(), name, plan);
      continue;
    }
    const bool names_device = std::any_of(
        plan->arguments.begin(), plan->arguments.end(), [](const auto& a) { return a.kind == Plan::Kind::kDevice; });
    const bool copies = (names_device && !direct) || plan->op.name == "aten._foreach_copy_";
    const bool lists = !direct && plan->op.name.rfind("aten._foreach_", 0) == 0;
    library().impl(full_name.c_str() + 6,
        copies      ? boxed<OneDeviceKernel<Crossing::kAny>>(plan)
            : lists ? boxed<OneDeviceKernel<Crossing::kSimacc>>(plan)
                    : boxed<Kernel<>>(plan));
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback<c10::DispatchKey::CPU>>());
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback<c10::DispatchKey::NestedTensorCPU>>());
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&no_tensors<kQuantized>>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&no_tensors<kSparse>>());
}

// Composites that only put parts together would make a tensor that no operator takes.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  for (const char* name : {"_sparse_compressed_tensor_unsafe", "sparse_compressed_tensor.comp_plain_value",
           "sparse_compressed_tensor.comp_plain_value_size"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&no_tensors<kSparse>>());
  }
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&no_tensors<kSparse>>());
}

}  // namespace simacc
