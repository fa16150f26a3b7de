// What a profiler wants to know of each row: which operator, in its own numbering, the thread was in. The two flags are
// all that a call looks at while no profiler runs.
#pragma once

#include <atomic>
#include <cstdint>

namespace simacc {

inline constexpr int64_t kUnprofiled = -1;  // a row from before or after the profiler; 0: from outside of all operators

struct ProfilerFlags {
  std::atomic<bool> launches{false};  // rows say what launched them
  std::atomic<bool> memory{false};    // allocations are reported
};
inline ProfilerFlags profiler_flags;

inline bool launches_are_kept() {
  return profiler_flags.launches.load(std::memory_order_relaxed);
}
inline bool memory_is_profiled() {
  return profiler_flags.memory.load(std::memory_order_relaxed);
}

// A profiler begins: what its predecessor left on a thread's stack is void.
void forget_operators();

// Around an operator, on its thread.
void enter_operator(int64_t number);
void leave_operator();

// The innermost operator that this thread is in; 0: none.
int64_t current_operator();

// While one lives, its thread is in the operator around the innermost, which is a step of PyTorch's on the way here.
class InCallingOperator {
 public:
  InCallingOperator() : step_(launches_are_kept() ? current_operator() : 0) {
    if (step_ > 0) {
      leave_operator();
    }
  }
  ~InCallingOperator() {
    if (step_ > 0) {
      enter_operator(step_);
    }
  }
  InCallingOperator(const InCallingOperator&) = delete;
  InCallingOperator& operator=(const InCallingOperator&) = delete;

 private:
  const int64_t step_;
};

}  // namespace simacc
