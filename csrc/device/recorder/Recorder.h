// The tape: every operator call on the device, as columns, in program order.
//
// A Recorder is installed per record() block in PyTorch's thread-local state, which autograd carries
// into its backward threads; what runs outside any block lands in the root recorder. Recording one
// call takes about 0.1 us and never calls Python.
#pragma once

#include "Signature.h"
#include "SpinLock.h"

#include <c10/core/Stream.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace simacc {

enum Phase : uint8_t { kForward = 0, kBackward = 1, kOptimizer = 2 };

// Columns as simdevice.records.Rows has them.
struct Tape {
  std::vector<int32_t> signature;
  std::vector<uint8_t> phase;
  std::vector<int32_t> scope;
  std::vector<uint8_t> device;
  std::vector<int64_t> tensors;
  std::vector<int64_t> launch;  // of a profiler: see Launches.h; empty where none has run since the last drain
};

class Recorder;

// One recording of an event: a position in a device's queue.
struct Mark {
  Mark(std::shared_ptr<Recorder> recorder, c10::DeviceIndex device);
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  const int64_t id;
  const std::shared_ptr<Recorder> recorder;
  const c10::DeviceIndex device;
  std::atomic<int64_t> resolved_ps{-1};  // absolute simulated time, once known
};

class Recorder : public c10::DebugInfoBase, public std::enable_shared_from_this<Recorder> {
 public:
  explicit Recorder(std::shared_ptr<Recorder> outer) : outer_(std::move(outer)), token(next_id()) {}

  // Where this thread records now; null while it is paused.
  static Recorder* current();
  // As current(), but also while paused.
  static std::shared_ptr<Recorder> innermost();
  static const std::shared_ptr<Recorder>& root();

  // Installs a new recorder on this thread, or also on every thread that has none.
  // `close` ends it, on whichever thread; calls that still name it go to the enclosing one.
  static std::shared_ptr<Recorder> open(bool on_all_threads = false);
  void close();
  // What this thread calls from here on is part of this recording: a thread that works for the one that opened it.
  void enter_thread();

  // Appends a call to a device's queue; `synchronizes` adds a row that holds back everything submitted later.
  void record(Call& call, c10::DeviceIndex device, bool synchronizes = false);
  void synchronize(c10::DeviceIndex device);
  // The host waits for every device that has a row here; for the first where none has.
  void synchronize_all();
  // The clock starts again: no device has a row that is waited for.
  void forget_devices();

  std::shared_ptr<Mark> record_event(c10::DeviceIndex device);
  // `stream` waits, which tells its device too.
  void wait_event(std::shared_ptr<Mark> mark, c10::Stream stream);
  void synchronize_event(const Mark& mark);

  // What was recorded since the last drain, and the events that no one can ask for any more.
  Tape drain();
  std::vector<int64_t> drain_released_events();
  std::vector<std::shared_ptr<Mark>> unresolved_events();
  size_t size() const {
    return rows_.load(std::memory_order_relaxed);
  }

  void enter_scope_at(uint64_t thread, uint64_t sequence, int32_t scope);

 private:
  friend struct Mark;
  static const std::shared_ptr<Recorder>& outermost();
  void append(int32_t signature, uint8_t phase, int32_t scope, c10::DeviceIndex device, std::span<const int64_t> tensors);
  void append_call(Call& call, c10::DeviceIndex device);
  void emit_waits(c10::DeviceIndex device);
  int32_t scope_of_forward(uint64_t thread, uint64_t sequence);

  SpinLock lock_;
  Tape tape_;
  std::atomic<size_t> rows_{0};
  std::atomic<bool> closed_{false}, has_waits_{false};
  uint32_t devices_ = 0;  // a bit for each that has a row here
  const std::shared_ptr<Recorder> outer_;
  std::vector<std::pair<c10::Stream, std::shared_ptr<Mark>>> waits_;
  std::unordered_map<int64_t, std::weak_ptr<Mark>> marks_;
  std::vector<int64_t> released_;
  // Per forward thread: from this autograd sequence number on, nodes belong to this scope.
  std::unordered_map<uint64_t, std::vector<std::pair<uint64_t, int32_t>>> scope_starts_;

 public:
  const int64_t token;
};

// Per-thread state that the Python half sets.
struct ThreadState {
  uint8_t phase = kForward;
  int paused = 0;
  std::array<c10::StreamId, kMostDevices> streams{};  // the current one of each device
  std::vector<int32_t> scopes;  // of the modules this thread is in, valid while scope_epoch is the current one
  uint64_t scope_epoch = 0;
};
ThreadState& thread_state();

void push_scope(int32_t scope);
void pop_scope();
void forget_scopes();  // on every thread

// Called when the root recorder's tape has grown past kRootRows without anyone asking for time, and
// when an event's time is wanted. Set once by the Python half.
inline constexpr size_t kRootRows = size_t{1} << 18;
struct Callbacks {
  std::function<void()> initialize;  // loads the rest of the device; set when the library is loaded
  std::function<void()> root_is_full;
  std::function<int64_t(int64_t token, int64_t event)> event_ps;
  std::function<std::vector<std::string>(const std::string& op)> declared_attributes;  // what its cost rule reads
};
Callbacks& callbacks();
int64_t event_ps(Mark& mark);

}  // namespace simacc
