// torch.profiler: simulated kernels for its tables and traces, and device memory under the device's name.
//
// Kineto asks for activities when collection has ended; simulated times are known then and not before. The Python half
// gives them in picoseconds; here they become activities in nanoseconds.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace simacc {

// One profile on the simulated clock.
struct Profile {
  // A queue of a machine: a row of the trace viewer.
  struct Track {
    int32_t device;
    std::string name, machine;
    int64_t offset_ps;  // from the machine's clock to picoseconds since the profiler started
  };
  // What kernels have in common.
  struct Kind {
    std::string name;
    bool transfer;
    std::vector<std::pair<std::string, std::string>> arguments;  // for the trace viewer: key, JSON value
  };
  struct Kernel {
    size_t track, kind;
    int64_t launch;  // the operator that it ran for, in the profiler's numbering; 0: none
    int64_t start_ps, busy_ps;
  };
  std::vector<Track> tracks;
  std::vector<Kind> kinds;
  std::vector<Kernel> kernels;  // of each track in order of time
};

// Called when a profiler has ended. The Python half sets it at the device's first use: before that there is nothing to
// tell. None of it runs when a profiler starts, which may already be watching what Python calls.
std::function<Profile()>& timed_profile();

// While a profiler runs: bytes that were the host's are the device's from here on, and the other way round. `live` is
// what the device holds afterwards.
void report_taken(void* data, size_t bytes, int64_t live, c10::Device device);
void report_given_back(void* data, size_t bytes, int64_t live, c10::Device device);
void report_resized(const void* old_data, size_t old_bytes, void* data, size_t bytes, int64_t live, c10::Device device);
void report_out_of_memory(int64_t bytes, int64_t live, c10::Device device);

}  // namespace simacc
