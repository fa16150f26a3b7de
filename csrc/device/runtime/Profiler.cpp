#include "Profiler.h"

#include "../recorder/Launches.h"
#include "Devices.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

namespace simacc {
namespace {

using libkineto::ActivityType;
using Activities = std::set<ActivityType>;

constexpr int64_t kPsPerNs = 1000;

int64_t unix_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

int64_t floor_ns(int64_t ps) {
  return ps / kPsPerNs - (ps % kPsPerNs < 0);
}

// Whole nanoseconds for durations in picoseconds, so that those of one operator sum to its total, rounded to the nearest.
class Rounding {
 public:
  int64_t ns(const std::string& op, int64_t ps) {
    auto& [total_ps, given_ns] = sums_[op];
    total_ps += ps;
    const int64_t ns = (total_ps + kPsPerNs / 2) / kPsPerNs - given_ns;
    given_ns += ns;
    return ns;
  }

 private:
  std::unordered_map<std::string, std::pair<int64_t, int64_t>> sums_;
};

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(const Activities& wanted)
      : kernels_(wanted.contains(ActivityType::CONCURRENT_KERNEL)), transfers_(wanted.contains(ActivityType::GPU_MEMCPY)) {}

  void start() override {
    status_ = libkineto::TraceStatus::RECORDING;
    started_ns_ = unix_ns();
    forget_operators();
    profiler_flags.launches = times();
    profiler_flags.memory = true;
  }

  void stop() override {
    profiler_flags.launches = profiler_flags.memory = false;
    if (times() && timed_profile()) {
      profile_ = timed_profile()();
    }
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  void processTrace(libkineto::ActivityLogger&) override {}  // kernels need their operators: below

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback operator_of, int64_t,
      int64_t end_ns) override {
    if (profile_.kernels.empty()) {
      return;
    }
    trace_ = std::make_unique<libkineto::CpuTraceBuffer>();
    trace_->span = libkineto::TraceSpan(started_ns_, end_ns, "simacc");
    trace_->span.iteration = 0;
    trace_->gpuOpCount = 0;
    Rounding rounding;
    std::vector<int64_t> free_ns(profile_.tracks.size(), 0);  // where a track's last kernel has ended
    for (const auto& kernel : profile_.kernels) {
      const auto& kind = profile_.kinds[kernel.kind];
      if (!(kind.transfer ? transfers_ : kernels_)) {
        continue;
      }
      const auto& track = profile_.tracks[kernel.track];
      const auto* launched_by = kernel.launch > 0 ? operator_of(static_cast<int32_t>(kernel.launch)) : nullptr;
      trace_->emplace_activity(
          trace_->span, kind.transfer ? ActivityType::GPU_MEMCPY : ActivityType::CONCURRENT_KERNEL, kind.name);
      auto& activity = *trace_->activities.back();
      // Kernels of one queue never overlap; rounded durations might, by a nanosecond.
      const int64_t start_ns = std::max(
          started_ns_ + floor_ns(kernel.start_ps + track.offset_ps), std::exchange(free_ns[kernel.track], 0));
      activity.startTime = start_ns;
      activity.endTime =
          start_ns + rounding.ns(launched_by == nullptr ? kind.name : launched_by->name(), kernel.busy_ps);
      free_ns[kernel.track] = activity.endTime;
      activity.id = static_cast<int32_t>(kernel.launch);
      activity.device = track.device;
      activity.resource = static_cast<int32_t>(kernel.track);
      activity.linked = launched_by;
      activity.addMetadata("start_ps", kernel.start_ps);
      activity.addMetadata("duration_ps", kernel.busy_ps);
      for (const auto& [key, value] : kind.arguments) {
        activity.addMetadata(key, value);
      }
      activity.log(logger);
    }
    // PyTorch asks a session for one device's name; the others are told here.
    for (const auto& [index, machine] : machines()) {
      if (index != 0) {
        logger.handleDeviceInfo(device_info(index, machine), started_ns_);
      }
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    const auto all = machines();
    const auto first = all.find(0);
    return first == all.end() ? nullptr
                              : std::make_unique<libkineto::DeviceInfo>(device_info(0, first->second));
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> out;
    for (size_t i = 0; i < profile_.tracks.size(); ++i) {
      const auto number = static_cast<int64_t>(i);
      out.push_back({number, number, profile_.tracks[i].device, profile_.tracks[i].name});
    }
    return out;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(trace_);
  }

  // How the trace's device rows came by their times: a clock of their own, laid over the host's.
  std::unordered_map<std::string, std::string> getMetadata() override {
    if (profile_.tracks.empty()) {
      return {};
    }
    std::string clocks;
    for (const auto& track : profile_.tracks) {
      clocks += fmt::format(R"({}{{"device": {}, "queue": "{}", "machine": "{}", "host_minus_simulated_ns": {}}})",
          clocks.empty() ? "" : ", ", track.device, track.name, track.machine, started_ns_ + floor_ns(track.offset_ps));
    }
    return {{"simacc_clocks", "[" + clocks + "]"}};
  }

  std::vector<std::string> errors() override {
    return {};
  }

  void pushCorrelationId(uint64_t id) override {
    enter_operator(static_cast<int64_t>(id));
  }
  void popCorrelationId() override {
    leave_operator();
  }

 private:
  bool times() const {
    return kernels_ || transfers_;
  }
  std::map<int32_t, std::string> machines() const {
    std::map<int32_t, std::string> out;
    for (const auto& track : profile_.tracks) {
      out.try_emplace(track.device, track.machine);
    }
    return out;
  }
  static libkineto::DeviceInfo device_info(int32_t index, const std::string& machine) {
    return {index, index + libkineto::kExceedMaxPid, fmt::format("simacc:{} ({}, simulated time)", index, machine),
        fmt::format("simacc:{}", index)};
  }

  const bool kernels_, transfers_;
  int64_t started_ns_ = 0;
  Profile profile_;
  std::unique_ptr<libkineto::CpuTraceBuffer> trace_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "simacc";
    return name;
  }
  const Activities& availableActivities() const override {
    static const Activities activities{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY};
    return activities;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const Activities& wanted, const libkineto::Config&) override {
    return std::make_unique<Session>(wanted);
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const Activities& wanted, const libkineto::Config& config) override {
    return configure(wanted, config);
  }
};

}  // namespace

std::function<Profile()>& timed_profile() {
  static auto* function = new std::function<Profile()>;  // holds Python objects; never destroyed after the interpreter
  return *function;
}

// PyTorch's reporter of host memory knows what it has counted: bytes that leave the host are freed there.

void report_taken(void* data, size_t bytes, int64_t live, c10::Device device) {
  c10::profiledCPUMemoryReporter().Delete(data);
  if (bytes > 0) {
    c10::reportMemoryUsageToProfiler(data, static_cast<int64_t>(bytes), live, 0, device);
  }
}

void report_given_back(void* data, size_t bytes, int64_t live, c10::Device device) {
  if (bytes > 0) {
    c10::reportMemoryUsageToProfiler(data, -static_cast<int64_t>(bytes), live, 0, device);
    c10::profiledCPUMemoryReporter().New(data, bytes);
  }
}

void report_resized(const void* old_data, size_t old_bytes, void* data, size_t bytes, int64_t live, c10::Device device) {
  if (old_bytes > 0) {
    const auto without = live - static_cast<int64_t>(bytes);
    c10::reportMemoryUsageToProfiler(
        const_cast<void*>(old_data), -static_cast<int64_t>(old_bytes), without, 0, device);
  }
  report_taken(data, bytes, live, device);
}

void report_out_of_memory(int64_t bytes, int64_t live, c10::Device device) {
  if (c10::memoryProfilingEnabled()) {
    c10::reportOutOfMemoryToProfiler(bytes, live, 0, device);
  }
}

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace simacc
