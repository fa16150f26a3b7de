#include "Launches.h"

#include <vector>

namespace simacc {
namespace {

std::atomic<uint64_t> epoch{0};

struct ThreadOperators {
  std::vector<int64_t> operators;
  uint64_t valid_in = 0;
};

// Cleared where it is of an earlier profiler, which may have ended inside an operator.
std::vector<int64_t>& operators() {
  static thread_local ThreadOperators stack;
  const uint64_t now = epoch.load(std::memory_order_relaxed);
  if (stack.valid_in != now) {
    stack.operators.clear();
    stack.valid_in = now;
  }
  return stack.operators;
}

}  // namespace

void forget_operators() {
  epoch.fetch_add(1, std::memory_order_relaxed);
}

void enter_operator(int64_t number) {
  operators().push_back(number);
}

void leave_operator() {
  if (auto& stack = operators(); !stack.empty()) {
    stack.pop_back();
  }
}

int64_t current_operator() {
  const auto& stack = operators();
  return stack.empty() ? 0 : stack.back();
}

}  // namespace simacc
