#include "Operator.h"

#include "../recorder/Recorder.h"

#include <algorithm>
#include <mutex>

namespace simacc {
namespace {

struct Known {
  std::mutex mutex;
  std::vector<Operator*> operators;
  std::vector<std::pair<Operator*, c10::OperatorName>> without_schema;
};

Known& known() {
  static auto* k = new Known;  // used before and after every other static object
  return *k;
}

}  // namespace

std::string canonical_name(const c10::OperatorName& name) {
  std::string out = name.name;
  if (const auto colons = out.find("::"); colons != std::string::npos) {
    out.replace(colons, 2, ".");
  }
  return out;
}

Operator::Operator(const char* full_name)
    : name(canonical_name({full_name, ""})), info_(new OpInfo{name}) {
  auto& all = known();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.without_schema.emplace_back(this, c10::OperatorName(full_name, ""));
}

Operator::Operator(const c10::OperatorHandle& op) : name(canonical_name(op.operator_name())), info_(new OpInfo{name}) {
  read(op.schema());
}

void Operator::find_schemas() {
  std::vector<std::pair<Operator*, c10::OperatorName>> waiting;
  {
    auto& all = known();
    const std::lock_guard<std::mutex> lock(all.mutex);
    waiting.swap(all.without_schema);
  }
  for (const auto& [op, full_name] : waiting) {
    op->read(c10::Dispatcher::singleton().findSchemaOrThrow(full_name.name.c_str(), "").schema());
  }
}

void Operator::read(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    argument_names_.push_back(argument.name());
  }
  {
    auto& all = known();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.operators.push_back(this);  // first: rules that change from here on are asked about again
  }
  ask();
}

void Operator::ask() {
  auto* info = new OpInfo{name, {}, callbacks().declared_attributes(name)};
  for (const auto& declared : info->declared) {
    const auto at = std::find(argument_names_.begin(), argument_names_.end(), declared);
    if (at != argument_names_.end()) {
      info->attributes.push_back({static_cast<size_t>(at - argument_names_.begin()), declared});
    }
  }
  info_.store(info, std::memory_order_release);  // the old one stays: signatures and running calls point at it
}

void Operator::ask_again(const std::unordered_set<std::string>& names) {
  std::vector<Operator*> due;
  {
    auto& all = known();
    const std::lock_guard<std::mutex> lock(all.mutex);  // not while asking: that takes the interpreter's lock
    std::copy_if(all.operators.begin(), all.operators.end(), std::back_inserter(due),
        [&](const Operator* op) { return names.count(op->name) != 0; });
  }
  for (auto* op : due) {
    op->ask();
  }
}

}  // namespace simacc
