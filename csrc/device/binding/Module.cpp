// simdevice._device: the native half of torch.simacc. Glue only; see simdevice/torch_backend.
#include "../aten/Alias.h"
#include "../aten/Boxed.h"
#include "../aten/Operator.h"
#include "../aten/UserKernel.h"
#include "../recorder/Launches.h"
#include "../recorder/Recorder.h"
#include "../runtime/Announced.h"
#include "../runtime/Autograd.h"
#include "../runtime/Block.h"
#include "../runtime/Generator.h"
#include "../runtime/Hooks.h"
#include "../runtime/HostLimit.h"
#include "../runtime/Profiler.h"
#include "Scopes.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace simacc {
namespace {

// A vector's memory as a numpy array, without copying.
template <class T>
py::array as_array(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  py::capsule owner(kept, [](void* p) { delete static_cast<std::vector<T>*>(p); });
  return py::array_t<T>(static_cast<py::ssize_t>(kept->size()), kept->data(), owner);
}

py::object attribute_value(const c10::IValue& value) {
  if (value.isInt()) {
    return py::int_(value.toInt());
  }
  if (value.isBool()) {
    return py::bool_(value.toBool());
  }
  if (value.isDouble()) {
    return py::float_(value.toDouble());
  }
  if (value.isString()) {
    return py::str(value.toStringRef());
  }
  if (value.isIntList()) {
    return py::tuple(py::cast(value.toIntVector()));
  }
  if (value.isDoubleList()) {
    return py::tuple(py::cast(value.toDoubleVector()));
  }
  if (value.isBoolList()) {
    const auto list = value.toBoolList();
    py::tuple out(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      out[i] = py::bool_(list.get(i));
    }
    return out;
  }
  return py::none();
}

py::list describe(const std::vector<TensorMeta>& tensors) {
  py::list out;
  for (const auto& t : tensors) {
    out.append(py::make_tuple(py::tuple(py::cast(t.sizes)), c10::toString(t.dtype), t.weight));
  }
  return out;
}

py::list signatures_since(size_t first) {
  py::list out;
  for (const auto& s : signatures_from(first)) {
    py::list attributes;
    for (const auto& [name, value] : s.attributes) {
      attributes.append(py::make_tuple(name, attribute_value(value)));
    }
    out.append(py::make_tuple(s.name, describe(s.inputs), describe(s.outputs), py::tuple(attributes), s.declared));
  }
  return out;
}

void mark_weights(const std::vector<at::Tensor>& tensors) {
  for (const auto& t : tensors) {
    if (t.device().type() == kDeviceType && t.has_storage()) {
      if (auto* block = block_of(*t.unsafeGetTensorImpl())) {
        block->weight = true;
      }
    }
  }
}

py::dict memory(c10::DeviceIndex device) {
  const auto use = memory_use(device);
  py::dict out;
  out["live_bytes"] = use.live_bytes;
  out["peak_bytes"] = use.peak_bytes;
  out["total_allocated_bytes"] = use.total_allocated_bytes;
  out["allocations"] = use.allocations;
  out["frees"] = use.frees;
  out["capacity_bytes"] = capacity_bytes(device);
  return out;
}

// Python functions that native threads call: with the GIL, and never destroyed.
void set_callbacks(py::function root_is_full, py::function event_ps, py::function declared_attributes) {
  callbacks().root_is_full = [f = new py::function(std::move(root_is_full))] {
    const py::gil_scoped_acquire gil;
    (*f)();
  };
  callbacks().event_ps = [f = new py::function(std::move(event_ps))](int64_t token, int64_t event) {
    const py::gil_scoped_acquire gil;
    return (*f)(token, event).cast<int64_t>();
  };
  callbacks().declared_attributes = [f = new py::function(std::move(declared_attributes))](const std::string& op) {
    const py::gil_scoped_acquire gil;
    return (*f)(op).cast<std::vector<std::string>>();
  };
}

py::tuple drain(Recorder& recorder) {
  Tape tape = recorder.drain();
  const py::object launch = tape.launch.empty() ? py::none() : py::object(as_array(std::move(tape.launch)));
  return py::make_tuple(as_array(std::move(tape.signature)), as_array(std::move(tape.phase)), as_array(std::move(tape.scope)),
      as_array(std::move(tape.device)), as_array(std::move(tape.tensors)), launch);
}

// What the Python half makes of a profile: see simdevice/torch_backend/profiler.py.
Profile as_profile(const py::tuple& from) {
  using Column = std::vector<int64_t>;
  Profile out;
  for (const auto& t : from[0].cast<std::vector<std::tuple<int32_t, std::string, std::string, int64_t>>>()) {
    out.tracks.push_back({std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t)});
  }
  for (const auto& k : from[1].cast<std::vector<std::tuple<std::string, bool, decltype(Profile::Kind::arguments)>>>()) {
    out.kinds.push_back({std::get<0>(k), std::get<1>(k), std::get<2>(k)});
  }
  const auto track = from[2].cast<Column>(), kind = from[3].cast<Column>(), launch = from[4].cast<Column>(),
             start = from[5].cast<Column>(), busy = from[6].cast<Column>();
  for (size_t i = 0; i < kind.size(); ++i) {
    out.kernels.push_back({static_cast<size_t>(track[i]), static_cast<size_t>(kind[i]), launch[i], start[i], busy[i]});
  }
  return out;
}

void set_timed_profile(py::function function) {
  timed_profile() = [f = new py::function(std::move(function))] {
    const py::gil_scoped_acquire gil;
    try {
      return as_profile((*f)());
    } catch (py::error_already_set& error) {  // Kineto is in the middle of stopping, and would not start again
      error.discard_as_unraisable("torch.profiler's simacc kernels");
      return Profile{};
    }
  };
}

// The host sees what was submitted so far: it waits for that, and for nothing to be copied.
at::Tensor synchronized_host_window(const at::Tensor& device_tensor) {
  if (auto* recorder = Recorder::current()) {
    recorder->synchronize(device_tensor.device().index());
  }
  return host_window(device_tensor);
}

void initialize() {
  install_host_limit();
  register_kernels();
}

}  // namespace
}  // namespace simacc

PYBIND11_MODULE(_device, m) {
  using namespace simacc;
  m.doc() = "The simacc device for PyTorch (PrivateUse1): storage, kernels and the native recorder.";
  register_hooks();  // so that torch.accelerator knows the device before its first use
  m.def("threads_set", [] { thread_settings.fetch_add(1, std::memory_order_relaxed); },
      "The program has set the number of the host's threads: backward threads follow.");
  m.def("announce", &announce, py::arg("late"), py::call_guard<py::gil_scoped_release>(),
        "Tell PyTorch's generic code of the device: the program has named it or asked for an accelerator.");
  m.def("initialize", &initialize, "Register the device's kernels. Once per process, after set_callbacks and before the first tensor.");
  m.def("rules_changed", &Operator::ask_again, "Ask again which attributes the rules of these operators read.");
  m.def("record_user_kernel", &record_user_kernel, "Let an operator keep its row where somebody else registered its kernel.");
  m.def("record_user_kernels", &record_user_kernels);
  m.def("forget_user_kernel", &forget_user_kernel);
  m.def("set_initializer", [](py::function f) {
    callbacks().initialize = [kept = new py::function(std::move(f))] {
      const py::gil_scoped_acquire gil;
      (*kept)();
    };
  });
  m.def("set_callbacks", &set_callbacks);
  m.def("set_timed_profile", &set_timed_profile);
  m.def("current_launch", [] { return launches_are_kept() ? current_operator() : kUnprofiled; });
  m.def("signatures_since", &signatures_since);
  m.def("mark_weights", &mark_weights);
  m.def("next_id", &next_id);
  m.def("host_window", &synchronized_host_window);
  m.def("memory", &memory);
  m.def("reset_peak_memory", &reset_peak);
  m.def("reset_accumulated_memory", &reset_totals);
  m.def("set_capacity", &set_capacity);
  m.def("default_generator", [](c10::DeviceIndex device) { return default_generator(device); });
  m.def("settle_autograd", &settle_autograd, py::call_guard<py::gil_scoped_release>(),
        "Wait until autograd's threads hold no Python object: before Python finalizes.");
  m.def("device_count", &device_count);
  m.def("set_device_count", &set_device_count);
  m.def("follow_devices_in_autograd", &follow_devices_in_autograd, py::call_guard<py::gil_scoped_release>(),
        "Give autograd a thread for every device that is new since it began.");
  m.attr("MOST_DEVICES") = kMostDevices;
  m.def("current_device", &current_device);
  m.def("exchange_device", &exchange_device);
  m.def("set_phase", [](uint8_t phase) { return std::exchange(thread_state().phase, phase); });
  m.def("pause", [] { ++thread_state().paused; });
  m.def("resume", [] { --thread_state().paused; });
  m.def("forget_scopes", &forget_scopes);

  py::class_<Mark, std::shared_ptr<Mark>>(m, "Mark")
      .def_readonly("id", &Mark::id)
      .def("resolve", [](Mark& mark, int64_t ps) { mark.resolved_ps = ps; });
  py::class_<Recorder, std::shared_ptr<Recorder>>(m, "Recorder")
      .def_static("root", [] { return Recorder::root(); })
      .def_static("open", &Recorder::open, py::arg("on_all_threads") = false)
      .def_static("innermost", &Recorder::innermost)
      .def("synchronize_all", &Recorder::synchronize_all)
      .def("forget_devices", &Recorder::forget_devices)
      .def("close", &Recorder::close)
      .def("enter_thread", &Recorder::enter_thread)
      .def("drain", &drain)
      .def("drain_released_events", &Recorder::drain_released_events)
      .def("unresolved_events", &Recorder::unresolved_events)
      .def_readonly("token", &Recorder::token)
      .def("__len__", &Recorder::size);
  add_scope_hooks(m.ptr());
}
