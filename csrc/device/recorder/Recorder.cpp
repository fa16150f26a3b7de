#include "Recorder.h"

#include "Launches.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <limits>
#include <mutex>

namespace simacc {
namespace {

constexpr std::string_view kKindName = "SIMACC_RECORDER";
const c10::DebugInfoKind kKind(&kKindName);

constexpr uint64_t kNoForward = std::numeric_limits<uint64_t>::max();  // what nodes that accumulate gradients have

// Hooks are installed anew with the first recording that wants scopes: what a thread pushed before,
// for a module that was still running when the old hooks went, is void.
std::atomic<uint64_t> scope_epoch{0};

// The innermost module this thread is in; null outside of all.
const int32_t* current_scope(const ThreadState& state) {
  const bool valid = !state.scopes.empty() && state.scope_epoch == scope_epoch.load(std::memory_order_relaxed);
  return valid ? &state.scopes.back() : nullptr;
}

// The recorder of threads that have none of their own, if it is not the root. Never destroyed: another thread may be
// about to write to it.
std::atomic<const std::shared_ptr<Recorder>*> everywhere{nullptr};

// A profiler ends only where it is innermost, and may well end inside a recording that began after it: so the profiler
// stays innermost while a recorder is put in or taken out.
template <class Change>
void below_profiler(Change&& change) {
  const auto kProfiler = c10::DebugInfoKind::PROFILER_STATE;
  std::shared_ptr<c10::DebugInfoBase> profiler;
  if (c10::ThreadLocalDebugInfo::get(kProfiler) != nullptr) {
    try {
      profiler = c10::ThreadLocalDebugInfo::_pop(kProfiler);
    } catch (const c10::Error&) {  // something else is innermost
    }
  }
  change();
  if (profiler != nullptr) {
    c10::ThreadLocalDebugInfo::_push(kProfiler, std::move(profiler));
  }
}

const OpInfo kSynchronize{"simacc.synchronize"};
const OpInfo kRecordEvent{"simacc.record_event"};
const OpInfo kWaitEvent{"simacc.wait_event"};
const OpInfo kSynchronizeEvent{"simacc.synchronize_event"};

}  // namespace

Mark::Mark(std::shared_ptr<Recorder> owner, c10::DeviceIndex index)
    : id(next_id()), recorder(std::move(owner)), device(index) {}

Mark::~Mark() {
  const std::lock_guard<SpinLock> lock(recorder->lock_);
  recorder->marks_.erase(id);
  recorder->released_.push_back(id);
}

ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}

Callbacks& callbacks() {
  static auto* c = new Callbacks;  // holds Python objects; never destroyed after the interpreter
  return *c;
}

const std::shared_ptr<Recorder>& Recorder::root() {
  static auto* r = new std::shared_ptr<Recorder>(std::make_shared<Recorder>(nullptr));
  return *r;
}

const std::shared_ptr<Recorder>& Recorder::outermost() {
  const auto* wide = everywhere.load(std::memory_order_acquire);
  return C10_LIKELY(wide == nullptr || (*wide)->closed_.load(std::memory_order_relaxed)) ? root() : *wide;
}

std::shared_ptr<Recorder> Recorder::innermost() {
  auto* found = static_cast<Recorder*>(c10::ThreadLocalDebugInfo::get(kKind));
  while (found != nullptr && found->closed_.load(std::memory_order_relaxed)) {
    found = found->outer_.get();
  }
  return found == nullptr ? outermost() : found->shared_from_this();
}

Recorder* Recorder::current() {
  if (C10_UNLIKELY(thread_state().paused > 0)) {
    return nullptr;
  }
  auto* found = static_cast<Recorder*>(c10::ThreadLocalDebugInfo::get(kKind));
  while (C10_UNLIKELY(found != nullptr && found->closed_.load(std::memory_order_relaxed))) {
    found = found->outer_.get();
  }
  return found == nullptr ? outermost().get() : found;
}

std::shared_ptr<Recorder> Recorder::open(bool on_all_threads) {
  auto recorder = std::make_shared<Recorder>(innermost());
  below_profiler([&] { c10::ThreadLocalDebugInfo::_push(kKind, recorder); });
  if (on_all_threads) {
    everywhere = new std::shared_ptr<Recorder>(recorder);
  }
  return recorder;
}

void Recorder::close() {
  closed_ = true;
  {
    // Destroyed after the lock is released: a Mark's destructor takes it.
    std::vector<std::pair<c10::Stream, std::shared_ptr<Mark>>> dropped;
    const std::lock_guard<SpinLock> lock(lock_);
    dropped.swap(waits_);
    scope_starts_.clear();
  }
  // Unlink it where it is innermost; below something else the closed recorder stays in the chain and is skipped.
  if (c10::ThreadLocalDebugInfo::get(kKind) == this) {
    below_profiler([] {
      try {
        c10::ThreadLocalDebugInfo::_pop(kKind);
      } catch (const c10::Error&) {
      }
    });
  }
}

void Recorder::enter_thread() {
  below_profiler([&] { c10::ThreadLocalDebugInfo::_push(kKind, shared_from_this()); });
}

void Recorder::append(
    int32_t signature, uint8_t phase, int32_t scope, c10::DeviceIndex device, std::span<const int64_t> tensors) {
  const std::lock_guard<SpinLock> lock(lock_);
  tape_.signature.push_back(signature);
  tape_.phase.push_back(phase);
  tape_.scope.push_back(scope);
  tape_.device.push_back(static_cast<uint8_t>(device));
  devices_ |= uint32_t{1} << device;
  for (const int64_t id : tensors) {
    tape_.tensors.push_back(id);
  }
  if (C10_UNLIKELY(launches_are_kept())) {
    tape_.launch.resize(tape_.signature.size() - 1, kUnprofiled);
    tape_.launch.push_back(current_operator());
  }
  rows_.store(tape_.signature.size(), std::memory_order_relaxed);
}

void Recorder::append_call(Call& call, c10::DeviceIndex device) {
  const int32_t signature = intern(call);
  const auto& state = thread_state();
  uint8_t phase = state.phase;
  int32_t scope = 0;
  const int32_t* inside = current_scope(state);
  if (const auto node = torch::autograd::get_current_node()) {
    phase = kBackward;
    scope = inside != nullptr ? *inside : scope_of_forward(node->thread_id(), node->sequence_nr());
  } else if (inside != nullptr) {
    if (phase == kOptimizer) {
      phase = kForward;  // the model that an optimizer's closure calls
    }
    scope = *inside;
  }
  append(signature, phase, scope, device, call.ids());
}

void Recorder::record(Call& call, c10::DeviceIndex device, bool synchronizes) {
  if (C10_UNLIKELY(has_waits_.load(std::memory_order_acquire))) {
    emit_waits(device);
  }
  append_call(call, device);
  if (synchronizes) {
    synchronize(device);
  }
  if (C10_UNLIKELY(size() >= kRootRows && this == root().get() && callbacks().root_is_full)) {
    callbacks().root_is_full();
  }
}

void Recorder::synchronize(c10::DeviceIndex device) {
  Call call(kSynchronize);
  append_call(call, device);
}

void Recorder::synchronize_all() {
  uint32_t used = 0;
  {
    const std::lock_guard<SpinLock> lock(lock_);
    used = devices_ == 0 ? 1 : devices_;
  }
  for (c10::DeviceIndex device = 0; device < kMostDevices; ++device) {
    if ((used >> device & 1) != 0) {
      synchronize(device);
    }
  }
}

void Recorder::forget_devices() {
  const std::lock_guard<SpinLock> lock(lock_);
  devices_ = 0;
}

std::shared_ptr<Mark> Recorder::record_event(c10::DeviceIndex device) {
  auto mark = std::make_shared<Mark>(shared_from_this(), device);
  {
    const std::lock_guard<SpinLock> lock(lock_);
    marks_[mark->id] = mark;
  }
  Call call(kRecordEvent);
  call.event(mark->id, /*recorded=*/true);
  append_call(call, device);
  return mark;
}

void Recorder::wait_event(std::shared_ptr<Mark> mark, c10::Stream stream) {
  const std::lock_guard<SpinLock> lock(lock_);
  // The frontier only grows: of two events of one queue, the later one says what both say. So a stream that waits and
  // never submits holds one.
  for (auto& [waiting, known] : waits_) {
    if (waiting == stream && known->recorder == mark->recorder && known->device == mark->device) {
      if (known->id < mark->id) {
        known.swap(mark);  // the earlier one goes when the lock is open: its destructor takes it
      }
      return;
    }
  }
  waits_.emplace_back(stream, std::move(mark));
  has_waits_.store(true, std::memory_order_release);
}

// A wait holds back only what its own stream submits later, so its row is written just before that
// stream's next operator.
void Recorder::emit_waits(c10::DeviceIndex device) {
  const auto stream = thread_state().streams.at(device);
  std::vector<std::shared_ptr<Mark>> due;
  {
    const std::lock_guard<SpinLock> lock(lock_);
    const auto rest = std::stable_partition(waits_.begin(), waits_.end(), 
        [&](const auto& w) { return w.first.id() != stream || w.first.device_index() != device; });
    for (auto it = rest; it != waits_.end(); ++it) {
      due.push_back(std::move(it->second));
    }
    waits_.erase(rest, waits_.end());
    has_waits_.store(!waits_.empty(), std::memory_order_release);
  }
  for (const auto& mark : due) {
    Call call(kWaitEvent);
    call.event(mark->id, /*recorded=*/false);
    append_call(call, device);
  }
}

void Recorder::synchronize_event(const Mark& mark) {
  Call call(kSynchronizeEvent);
  call.event(mark.id, /*recorded=*/false);
  append_call(call, mark.device);
}

Tape Recorder::drain() {
  const std::lock_guard<SpinLock> lock(lock_);
  rows_.store(0, std::memory_order_relaxed);
  if (!tape_.launch.empty()) {
    tape_.launch.resize(tape_.signature.size(), kUnprofiled);
  }
  return std::exchange(tape_, {});
}

std::vector<int64_t> Recorder::drain_released_events() {
  const std::lock_guard<SpinLock> lock(lock_);
  return std::exchange(released_, {});
}

std::vector<std::shared_ptr<Mark>> Recorder::unresolved_events() {
  std::vector<std::shared_ptr<Mark>> out;
  {
    const std::lock_guard<SpinLock> lock(lock_);
    for (const auto& [id, weak] : marks_) {
      if (auto mark = weak.lock()) {
        out.push_back(std::move(mark));  // kept: destroying one here would take the lock again
      }
    }
  }
  std::erase_if(out, [](const auto& mark) { return mark->resolved_ps.load() >= 0; });
  return out;
}

void Recorder::enter_scope_at(uint64_t thread, uint64_t sequence, int32_t scope) {
  const std::lock_guard<SpinLock> lock(lock_);
  auto& starts = scope_starts_[thread];
  if (!starts.empty() && starts.back().first == sequence) {
    starts.back().second = scope;  // no autograd node was made under the previous one
  } else if (starts.empty() || starts.back().second != scope) {
    starts.emplace_back(sequence, scope);
  }
}

int32_t Recorder::scope_of_forward(uint64_t thread, uint64_t sequence) {
  const std::lock_guard<SpinLock> lock(lock_);
  const auto found = scope_starts_.find(thread);
  if (found == scope_starts_.end() || sequence == kNoForward) {
    return 0;
  }
  const auto& starts = found->second;
  const auto after = std::upper_bound(
      starts.begin(), starts.end(), sequence, [](uint64_t s, const auto& start) { return s < start.first; });
  return after == starts.begin() ? 0 : std::prev(after)->second;
}

namespace {
void scope_changed() {
  auto* recorder = Recorder::current();
  if (recorder != nullptr && recorder != Recorder::root().get()) {  // the root keeps no scopes, and lives for ever
    const int32_t* scope = current_scope(thread_state());
    recorder->enter_scope_at(at::RecordFunction::currentThreadId(), at::sequence_number::peek(), scope == nullptr ? 0 : *scope);
  }
}
}  // namespace

void push_scope(int32_t scope) {
  auto& state = thread_state();
  if (current_scope(state) == nullptr) {
    state.scopes.clear();
    state.scope_epoch = scope_epoch.load(std::memory_order_relaxed);
  }
  state.scopes.push_back(scope);
  scope_changed();
}

void pop_scope() {
  auto& state = thread_state();
  if (current_scope(state) != nullptr) {
    state.scopes.pop_back();
    scope_changed();
  }
}

void forget_scopes() {
  scope_epoch.fetch_add(1, std::memory_order_relaxed);
}

int64_t event_ps(Mark& mark) {
  const int64_t known = mark.resolved_ps.load();
  if (known >= 0) {
    return known;
  }
  if (!callbacks().event_ps) {
    callbacks().initialize();  // an event was recorded before the first tensor was made
  }
  return callbacks().event_ps(mark.recorder->token, mark.id);
}

}  // namespace simacc
