// An operator of PyTorch's as every kernel knows it: its names, and the call attributes that its cost rule reads.
#pragma once

#include "../recorder/Signature.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <unordered_set>
#include <vector>

namespace simacc {

// Lives as long as the process: rows and later questions name it.
//
// 1. A kernel written by hand names its operator; before the device is initialised nothing more is known of it.
// 2. With the schema known, Python is asked what the cost rule reads. 3. When rules have changed, it is asked again:
// what is recorded from then on is a new signature, even where it looks like an old one.
class Operator {
 public:
  explicit Operator(const char* full_name);  // "aten::histc"
  explicit Operator(const c10::OperatorHandle& op);
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  const OpInfo& info() const {
    return *info_.load(std::memory_order_acquire);
  }
  const std::string& argument_name(size_t position) const {
    return argument_names_.at(position);
  }

  // Looks up the schemas of all operators that kernels written by hand have named. Once per process.
  static void find_schemas();
  // Asks about every operator with one of these canonical names.
  static void ask_again(const std::unordered_set<std::string>& names);

  const std::string name;  // canonical: aten.histc

 private:
  void read(const c10::FunctionSchema& schema);
  void ask();

  std::vector<std::string> argument_names_;
  std::atomic<const OpInfo*> info_;
};

// "aten::add.out" as "aten.add": what cost rules and traces call an operator.
std::string canonical_name(const c10::OperatorName& name);

}  // namespace simacc
