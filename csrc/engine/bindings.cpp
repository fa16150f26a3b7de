// Python's way in: NumPy arrays are read in place and results are handed over, never copied; the GIL
// is released while anything is computed.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "Lowering.h"
#include "Simulation.h"

namespace py = pybind11;
using namespace simdevice;

namespace {

static_assert(sizeof(Stage) == 14 * sizeof(int64_t));

using Column = py::array_t<int64_t, py::array::c_style>;

const int64_t* column(const Column& array, int64_t length, const char* name) {
  if (array.ndim() != 1 || array.size() != length)
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(length) + " numbers, got " +
                                std::to_string(array.size()));
  return array.data();
}

// Memory for times, uninitialised. Large ones ask for large pages: a million tiles are 64 MB, and page
// faults would take longer than the simulation.
std::unique_ptr<int64_t, decltype(&std::free)> allocate(int64_t count) {
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  std::size_t bytes = static_cast<std::size_t>(count) * sizeof(int64_t) + 1;
  void* memory = nullptr;
  if (bytes < 2 * kLargePage) {
    memory = std::malloc(bytes);
  } else {
    bytes = (bytes + kLargePage - 1) / kLargePage * kLargePage;
    memory = std::aligned_alloc(kLargePage, bytes);
#ifdef MADV_HUGEPAGE
    if (memory != nullptr) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  }
  if (memory == nullptr) throw std::bad_alloc();
  return {static_cast<int64_t*>(memory), &std::free};
}

// Hands a vector to NumPy.
template <typename T>
py::array_t<T> handed(std::vector<T>&& values) {
  auto* owner = new std::vector<T>(std::move(values));
  const py::capsule release(owner, [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
  return py::array_t<T>(static_cast<py::ssize_t>(owner->size()), owner->data(), release);
}

ProgramView view(const Column& offsets, const Column& load, const Column& compute, const Column& store,
                 const Column& operands, const Column& results, const Column& tile_list, const Column& dep_offsets,
                 const Column& deps, const Column& wait_for, const Column& host_wait, const Column& launch,
                 const Column& not_before) {
  if (offsets.size() < 1 || dep_offsets.size() < 1) throw std::invalid_argument("offsets start with 0");
  const int64_t tiles = load.size(), operators = tile_list.size();
  ProgramView program{};
  program.tiles = {offsets.size() - 1,
                   column(offsets, offsets.size(), "offsets"),
                   column(load, tiles, "load_ticks"),
                   column(compute, tiles, "compute_ticks"),
                   column(store, tiles, "store_ticks"),
                   column(operands, tiles, "operand_bytes"),
                   column(results, tiles, "result_bytes")};
  program.operators = operators;
  program.tile_list = column(tile_list, operators, "tile_list");
  program.dep_offsets = column(dep_offsets, operators + 1, "dep_offsets");
  program.deps = column(deps, deps.size(), "deps");
  program.wait_for = column(wait_for, operators, "wait_for");
  program.host_wait = column(host_wait, operators, "host_wait");
  program.launch = column(launch, operators, "launch_ticks");
  program.not_before = column(not_before, operators, "not_before");
  const auto inside = [](const int64_t* begin, int64_t count, int64_t limit) {
    return begin[0] >= 0 && begin[count] <= limit;
  };
  if (!inside(program.tiles.offsets, program.tiles.lists, tiles) ||
      !inside(program.dep_offsets, operators, deps.size()))
    throw std::invalid_argument("offsets point outside their columns");
  return program;
}

// Appends a program; gives the array of eight rows that receives its times, or None where nothing is
// kept. False where the program cannot be simulated.
py::object append(Simulation& simulation, bool keep, const Column& offsets, const Column& load, const Column& compute,
                  const Column& store, const Column& operands, const Column& results, const Column& tile_list,
                  const Column& dep_offsets, const Column& deps, const Column& wait_for, const Column& host_wait,
                  const Column& launch, const Column& not_before) {
  const ProgramView program = view(offsets, load, compute, store, operands, results, tile_list, dep_offsets, deps,
                                   wait_for, host_wait, launch, not_before);
  std::unique_ptr<int64_t, decltype(&std::free)> times(nullptr, &std::free);
  int64_t tiles = 0;
  {
    py::gil_scoped_release unlocked;
    if (!simulation.accepts(program)) {
      tiles = -1;
    } else {
      for (int64_t op = 0; op < program.operators; ++op) tiles += program.last(op) - program.first(op);
      if (keep) times = allocate(8 * tiles);
      simulation.append(program, keep ? Times(times.get(), tiles) : Times());
    }
  }
  if (tiles < 0) return py::bool_(false);
  if (!keep) return py::none();
  int64_t* data = times.release();
  const py::capsule release(data, [](void* pointer) { std::free(pointer); });
  return py::array_t<int64_t>({py::ssize_t{8}, static_cast<py::ssize_t>(tiles)}, data, release);
}

// Simulates a whole program in sums: makespan, tiles, three stalls, the buffer's peak; then what the tiles need, summed
// over lists: ticks and work per unit, ticks of loads and stores, loads, bytes loaded and stored. False where the
// program cannot be simulated.
py::object outline(int64_t buffer_bytes, int64_t dram_channels, const Column& offsets, const Column& load,
                   const Column& compute, const Column& store, const Column& operands, const Column& results,
                   const Column& work, const py::array_t<uint8_t, py::array::c_style>& unit, const Column& tile_list,
                   const Column& dep_offsets, const Column& deps, const Column& wait_for, const Column& host_wait,
                   const Column& launch, const Column& not_before) {
  const ProgramView program = view(offsets, load, compute, store, operands, results, tile_list, dep_offsets, deps,
                                   wait_for, host_wait, launch, not_before);
  const int64_t* works = column(work, load.size(), "work");
  if (unit.ndim() != 1 || unit.size() != load.size()) throw std::invalid_argument("unit: expected one per tile");
  const uint8_t* units = unit.data();
  Sums sums;
  Amounts needed;
  int64_t makespan = 0;
  bool accepted = false;
  {
    py::gil_scoped_release unlocked;
    Simulation simulation(buffer_bytes, dram_channels);
    accepted = simulation.accepts(program);
    if (accepted) {
      simulation.append(program, sums);
      makespan = simulation.frontier(simulation.operators());
      needed = amounts(program, works, units);
    }
  }
  if (!accepted) return py::bool_(false);
  return py::make_tuple(makespan, needed.tiles, sums.load_bandwidth, sums.buffer_full, sums.dependency,
                        sums.buffer_peak, py::make_tuple(needed.ticks[0], needed.ticks[1], needed.ticks[2]),
                        py::make_tuple(needed.work[0], needed.work[1], needed.work[2]), needed.load_ticks,
                        needed.store_ticks, needed.loads, needed.loaded_bytes, needed.stored_bytes);
}

// The tiles of stages, one list per stage; or the number of the first that cannot be cut.
py::object cut_stages(const py::array_t<int64_t, py::array::c_style>& stages, const Rates& rates) {
  if (stages.ndim() != 2 || stages.shape(1) != 14) throw std::invalid_argument("stages: expected 14 columns");
  const Stage* rows = reinterpret_cast<const Stage*>(stages.data());
  TileVectors tiles;
  std::vector<int64_t> offsets{0};
  {
    py::gil_scoped_release unlocked;
    for (py::ssize_t i = 0; i < stages.shape(0) && cut(rows[i], rates, tiles); ++i)
      offsets.push_back(static_cast<int64_t>(tiles.size()));
  }
  const auto done = static_cast<py::ssize_t>(offsets.size()) - 1;
  if (done < stages.shape(0)) return py::int_(done);
  return py::make_tuple(handed(std::move(offsets)), handed(std::move(tiles.load)), handed(std::move(tiles.compute)),
                        handed(std::move(tiles.store)), handed(std::move(tiles.operands)),
                        handed(std::move(tiles.results)), handed(std::move(tiles.work)),
                        handed(std::move(tiles.unit)));
}

py::object lower(Lowering& lowering, const Column& row_kind, const Column& inputs, const Column& outputs,
                 const Column& first_stage, const py::array_t<int64_t, py::array::c_style>& stages,
                 const py::array_t<int32_t, py::array::c_style>& signature, const Column& tensors) {
  const int64_t signatures = row_kind.size();
  if (stages.ndim() != 2 || stages.shape(1) != 14) throw std::invalid_argument("stages: expected 14 columns");
  const WorkView work{signatures,
                      column(row_kind, signatures, "row_kind"),
                      column(inputs, signatures, "inputs"),
                      column(outputs, signatures, "outputs"),
                      column(first_stage, signatures + 1, "first_stage"),
                      reinterpret_cast<const Stage*>(stages.data())};
  const int32_t* rows = signature.data();
  int64_t ids = 0;
  for (py::ssize_t i = 0; i < signature.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= signatures) throw std::invalid_argument("a row names no signature");
    ids += work.inputs[rows[i]] + work.outputs[rows[i]];
  }
  const int64_t* storages = column(tensors, ids, "tensors");
  Piece piece;
  int64_t refused = -1;
  {
    py::gil_scoped_release unlocked;
    refused = lowering.lower(work, signature.size(), rows, storages, piece);
  }
  if (refused >= 0) return py::int_(refused);
  TileVectors& tiles = piece.tiles;
  return py::make_tuple(handed(std::move(piece.offsets)), handed(std::move(tiles.load)),
                        handed(std::move(tiles.compute)), handed(std::move(tiles.store)),
                        handed(std::move(tiles.operands)), handed(std::move(tiles.results)),
                        handed(std::move(tiles.work)), handed(std::move(tiles.unit)), handed(std::move(piece.tile_list)),
                        handed(std::move(piece.dep_offsets)), handed(std::move(piece.deps)),
                        handed(std::move(piece.wait_for)), handed(std::move(piece.host_wait)),
                        handed(std::move(piece.launch)), handed(std::move(piece.trace_row)));
}

}  // namespace

PYBIND11_MODULE(_engine, m) {
  m.doc() = "The tile engine and the lowering in C++; see simdevice.engines.native and simdevice.lowering.native.";

  py::class_<Simulation>(m, "Simulation")
      .def(py::init<int64_t, int64_t>(), py::arg("buffer_bytes"), py::arg("dram_channels"))
      .def("append", &append)
      .def("frontier", [](const Simulation& s, int64_t p) {
        if (p < 0 || p > s.operators()) throw std::out_of_range("no such position");
        return s.frontier(p);
      })
      .def_property_readonly("operators", &Simulation::operators)
      .def("host", &Simulation::host)
      .def("settled", &Simulation::settled)
      .def("forget", &Simulation::forget)
      .def("write_pending", &Simulation::write_pending);

  m.def("outline", &outline);
  m.def("cut", &cut_stages);

  py::class_<Rates>(m, "Rates")
      .def(py::init([](int64_t buffer_bytes, int64_t tile_bytes, int64_t array_rows, int64_t array_cols,
                       int64_t vector_lanes, int64_t launch_ticks, bool in_transit, bool all_operands, int64_t transfer_fixed,
                       int64_t transfer_byte, int64_t transfer_op, int64_t transfer_scale, int64_t cycle,
                       int64_t cycle_scale, int64_t link_fixed, int64_t link_byte, int64_t link_scale) {
        return Rates{buffer_bytes, tile_bytes, array_rows, array_cols, vector_lanes, launch_ticks, in_transit, all_operands,
                              transfer_fixed, transfer_byte, transfer_op, transfer_scale, cycle, cycle_scale, link_fixed,
                              link_byte, link_scale};
      }));

  py::class_<Lowering>(m, "Lowering")
      .def(py::init<const Rates&>())
      .def("lower", &lower)
      .def_property_readonly("operators", &Lowering::operators)
      .def_property_readonly("host_position", &Lowering::host_position)
      .def("event_position", &Lowering::event_position)
      .def("events_before", &Lowering::events_before)
      .def("forget_event", &Lowering::forget_event)
      .def("forget", &Lowering::forget);
}
