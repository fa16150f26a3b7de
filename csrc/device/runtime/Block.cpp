#include "Block.h"

#include "../recorder/Launches.h"
#include "HostLimit.h"
#include "Profiler.h"

#include <ATen/native/Resize.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <limits>
#include <mutex>

namespace simacc {
namespace {

struct Ledger {
  std::atomic<int64_t> live{0}, peak{0}, total{0}, allocations{0}, frees{0}, refusals{0};
  std::atomic<size_t> capacity{std::numeric_limits<int64_t>::max()};
  std::mutex name_mutex;
  std::string name;
};

Ledger& ledger(c10::DeviceIndex device) {
  static std::array<Ledger, kMostDevices> ledgers;
  return ledgers.at(device);
}

// Whole MiB, unless that would hide the difference that matters.
std::string amount(int64_t bytes) {
  return bytes < (10 << 20) ? c10::str(bytes, " bytes") : c10::str((bytes + (1 << 19)) >> 20, " MiB");
}

// Charges `bytes` to the device, or raises without charging.
void charge(c10::DeviceIndex device, int64_t bytes) {
  auto& book = ledger(device);
  const int64_t live = book.live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const auto capacity = static_cast<int64_t>(book.capacity.load(std::memory_order_relaxed));
  if (C10_UNLIKELY(live > capacity && bytes > 0)) {
    book.live.fetch_sub(bytes, std::memory_order_relaxed);
    report_out_of_memory(bytes, live - bytes, {kDeviceType, device});
    book.refusals.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(book.name_mutex);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "simacc:", static_cast<int>(device), " out of memory: tried to allocate ",
        amount(bytes), ", but ", amount(live - bytes), " of the ", amount(capacity),
        " of device ", book.name, " are in use; configure a larger memory_capacity_bytes or free tensors");
  }
  int64_t peak = book.peak.load(std::memory_order_relaxed);
  while (live > peak && !book.peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
  book.total.fetch_add(bytes, std::memory_order_relaxed);
}

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const auto device = c10::Device(kDeviceType, current_device());
    if (bytes >= kLargeAllocation) {
      check_host_can_hold(bytes);
    }
    auto* cpu = c10::GetCPUAllocator();
    c10::Storage host(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), bytes, cpu->allocate(bytes), cpu, /*resizable=*/true));
    void* data = host.mutable_data();
    auto* block = new Block(std::move(host), bytes, device.index());
    return {data, block, &delete_block, device};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;  // a raw pointer alone could not find its Block
  }

  void copy_data(void* destination, const void* source, size_t bytes) const final {
    default_copy_data(destination, source, bytes);
  }

  bool initialized() override {
    return true;
  }

  void emptyCache(c10::MempoolId_t) override {}  // nothing is cached

  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // memory is freed in program order

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const auto use = memory_use(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto total = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    for (auto* bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      auto& stat = (*bytes)[total];
      stat.current = use.live_bytes;
      stat.peak = use.peak_bytes;
      stat.allocated = use.total_allocated_bytes;
      stat.freed = use.total_allocated_bytes - use.live_bytes;
    }
    for (auto* count : {&stats.allocation, &stats.active}) {
      auto& stat = (*count)[total];
      stat.current = use.allocations - use.frees;
      stat.allocated = use.allocations;
      stat.freed = use.frees;
    }
    stats.num_ooms = use.refusals;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    reset_totals(device);
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    reset_peak(device);
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const size_t capacity = capacity_bytes(device);
    return {capacity - static_cast<size_t>(memory_use(device).live_bytes), capacity};
  }
};

DeviceAllocator& the_allocator() {
  static DeviceAllocator allocator;
  return allocator;
}

}  // namespace

Block::Block(c10::Storage host_storage, size_t bytes, c10::DeviceIndex index)
    : host(std::move(host_storage)), id(next_id()), counted_bytes(bytes), device(index) {
  charge(device, static_cast<int64_t>(bytes));
  ledger(device).allocations.fetch_add(1, std::memory_order_relaxed);
  if (C10_UNLIKELY(memory_is_profiled())) {
    report_taken(host.mutable_data(), bytes, memory_use(device).live_bytes, {kDeviceType, device});
  }
}

Block::~Block() {
  if (auto* kept = view.load(std::memory_order_acquire)) {
    c10::raw::intrusive_ptr::decref(kept);
  }
  auto& book = ledger(device);
  book.live.fetch_sub(static_cast<int64_t>(counted_bytes), std::memory_order_relaxed);
  book.frees.fetch_add(1, std::memory_order_relaxed);
  if (C10_UNLIKELY(memory_is_profiled())) {
    report_given_back(host.mutable_data(), counted_bytes, book.live, {kDeviceType, device});
  }
}

void delete_block(void* block) {
  delete static_cast<Block*>(block);
}

c10::Storage adopt(c10::Storage host, c10::DeviceIndex device) {
  const size_t bytes = host.nbytes();
  void* data = host.mutable_data();
  auto* block = new Block(std::move(host), bytes, device);
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
      c10::DataPtr(data, block, &delete_block, c10::Device(kDeviceType, device)), &the_allocator(), /*resizable=*/true));
}

c10::Storage host_storage(const c10::StorageImpl& storage) {
  if (const Block* block = block_of(storage)) {
    return block->host;
  }
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(const_cast<void*>(storage.data()), c10::Device(c10::kCPU)), /*allocator=*/nullptr, /*resizable=*/false));
}

void refresh(c10::StorageImpl& device_storage) {
  Block* block = block_of(device_storage);
  if (block == nullptr) {
    return;  // borrowed memory cannot be resized
  }
  const size_t bytes = block->host.nbytes();
  if (bytes == block->counted_bytes && block->host.data() == device_storage.data()) {
    return;
  }
  // The kernel has freed the old bytes, so the device side must move whether they can be charged or not.
  const auto follow = [&] {
    auto old = device_storage.set_data_ptr(
        c10::DataPtr(block->host.mutable_data(), block, &delete_block, c10::Device(kDeviceType, block->device)));
    old.release_context();  // the same Block, now owned by the new pointer
    device_storage.set_nbytes(block->counted_bytes);
  };
  try {
    charge(block->device, static_cast<int64_t>(bytes) - static_cast<int64_t>(block->counted_bytes));
  } catch (const c10::OutOfMemoryError&) {
    at::native::resize_bytes_cpu(block->host.unsafeGetStorageImpl(), block->counted_bytes);
    follow();
    throw;
  }
  if (C10_UNLIKELY(memory_is_profiled())) {
    const auto live = memory_use(block->device).live_bytes;
    report_resized(device_storage.data(), block->counted_bytes, block->host.mutable_data(), bytes, live,
        {kDeviceType, block->device});
  }
  block->counted_bytes = bytes;
  follow();
}

MemoryUse memory_use(c10::DeviceIndex index) {
  const auto device = index_or_current(index);
  const auto& book = ledger(device);
  return {book.live, book.peak, book.total, book.allocations, book.frees, book.refusals};
}

void reset_peak(c10::DeviceIndex device) {
  check_device_index(device);
  ledger(device).peak = ledger(device).live.load();
}

void reset_totals(c10::DeviceIndex device) {
  check_device_index(device);
  auto& book = ledger(device);
  book.total = book.live.load();
  book.allocations = book.allocations.load() - book.frees.load();
  book.frees = 0;
  book.refusals = 0;
}

size_t capacity_bytes(c10::DeviceIndex device) {
  check_device_index(device);
  return ledger(device).capacity;
}

void set_capacity(c10::DeviceIndex device, size_t bytes, std::string name) {
  auto& book = ledger(device);
  const std::lock_guard<std::mutex> lock(book.name_mutex);
  book.capacity = bytes;
  book.name = std::move(name);
}

c10::Allocator* device_allocator() {
  return &the_allocator();
}

namespace {
// The allocator table keeps a raw pointer for the life of the process.
const bool registered = [] {
  c10::SetAllocator(kDeviceType, &the_allocator());
  return true;
}();
}  // namespace

}  // namespace simacc
