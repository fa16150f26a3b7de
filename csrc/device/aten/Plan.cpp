#include "Plan.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace simacc {
namespace {

using Kind = Plan::Kind;

// Operators whose CPU tensor arguments are host data on every device.
bool takes_host_tensors(std::string_view op, std::string_view argument) {
  if (argument == "indices" || argument == "index") {
    return op == "aten.index" || op == "aten.index_put" || op == "aten.index_put_" || op == "aten._index_put_impl_" ||
        op == "aten._unsafe_index" || op == "aten._unsafe_index_put";
  }
  return argument == "lengths" || argument == "batch_sizes";
}

std::optional<Kind> kind_of(const c10::TypePtr& type) {
  using c10::TypeKind;
  const auto is_tensor = [](const c10::TypePtr& t) {
    return t->kind() == TypeKind::TensorType ||
        (t->kind() == TypeKind::OptionalType && t->castRaw<c10::OptionalType>()->getElementType()->kind() == TypeKind::TensorType);
  };
  if (is_tensor(type)) {
    return Kind::kTensor;
  }
  const auto inner = type->kind() == TypeKind::OptionalType ? type->castRaw<c10::OptionalType>()->getElementType() : type;
  if (inner->kind() == TypeKind::ListType) {
    const auto& element = inner->castRaw<c10::ListType>()->getElementType();
    if (is_tensor(element)) {
      return element->kind() == TypeKind::TensorType ? Kind::kTensorList : Kind::kOptionalTensorList;
    }
    return std::nullopt;
  }
  if (inner->kind() == TypeKind::DeviceObjType) {
    return Kind::kDevice;
  }
  return inner->kind() == TypeKind::GeneratorType ? std::optional(Kind::kGenerator) : std::nullopt;
}

bool has_tag(const c10::OperatorHandle& op, at::Tag tag) {
  const auto tags = op.getTags();
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

}  // namespace

bool returns_views(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return !returns.empty() && std::all_of(returns.begin(), returns.end(), [](const c10::Argument& r) {
    return r.alias_info() != nullptr && !r.alias_info()->isWrite();
  });
}

Plan::Plan(const c10::OperatorHandle& handle) : op(handle) {
  const auto& schema = handle.schema();
  argument_count = schema.arguments().size();
  for (size_t i = 0; i < argument_count; ++i) {
    const auto& argument = schema.arguments()[i];
    const auto kind = kind_of(argument.type());
    if (!kind) {
      continue;
    }
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    arguments.push_back({static_cast<uint16_t>(i), *kind, !(written && argument.is_out()) && !(i == 0 && op.name == "aten.copy_"),
        written, takes_host_tensors(op.name, argument.name()), written});
  }
  for (const auto& ret : schema.returns()) {
    int16_t from = kFresh;
    if (ret.alias_info() != nullptr && ret.alias_info()->isWrite()) {
      for (auto& argument : arguments) {
        const auto* info_in = schema.arguments()[argument.index].alias_info();
        if (argument.written && info_in->beforeSet() == ret.alias_info()->beforeSet()) {
          from = static_cast<int16_t>(argument.index);
          argument.not_returned = false;
        }
      }
    }
    returned_argument.push_back(from);
  }
  if (op.name == "aten._pack_padded_sequence") {
    returned_argument[1] = kOnHost;  // batch sizes
  }
  static constexpr std::array kMovesNothing{"aten.resize_", "aten.resize_as_", "aten.set_", "aten._fused_sdp_choice",
      "aten.is_set_to", "aten.is_same_size", "aten.empty_like", "aten.new_empty", "aten.new_empty_strided", "aten.empty_permuted"};
  recorded = !returns_views(schema) &&
      std::none_of(kMovesNothing.begin(), kMovesNothing.end(), [&](const char* n) { return op.name == n; });
  index_masks = op.name == "aten.index" || op.name == "aten.index_put" || op.name == "aten.index_put_" ||
      op.name == "aten._index_put_impl_" || op.name == "aten._unsafe_index";
  reads_to_host = op.name == "aten._local_scalar_dense";
  synchronizes = reads_to_host ||
      (!index_masks && (has_tag(handle, at::Tag::data_dependent_output) || has_tag(handle, at::Tag::dynamic_output_shape)));
}

}  // namespace simacc
