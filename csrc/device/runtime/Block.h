// Device memory. A device storage's DataPtr context is a Block, which owns a *host* storage over the
// same bytes: CPU kernels run on it in place, so nothing is ever copied between the two.
#pragma once

#include "../recorder/Ids.h"
#include "Devices.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace simacc {

struct Block {
  c10::Storage host;
  int64_t id;                       // serial number, never reused
  size_t counted_bytes;             // what the memory statistics charge for it
  c10::DeviceIndex device;
  std::atomic<bool> weight{false};  // storage of a module's parameter
  // A CPU tensor over `host` for kernels to read, so that most calls make none; null until one is there.
  std::atomic<c10::TensorImpl*> view{nullptr};

  Block(c10::Storage host, size_t bytes, c10::DeviceIndex device);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
};

struct MemoryUse {
  int64_t live_bytes, peak_bytes, total_allocated_bytes, allocations, frees, refusals;
};

void delete_block(void* block);

// The Block behind a device storage; null for memory that PyTorch only borrowed (at::from_blob, which
// writes storages to files).
inline Block* block_of(const c10::StorageImpl& storage) {
  const auto& ptr = storage.data_ptr();
  return C10_LIKELY(ptr.get_deleter() == &delete_block) ? static_cast<Block*>(ptr.get_context()) : nullptr;
}

inline Block* block_of(const c10::TensorImpl& tensor) {
  return block_of(*tensor.unsafe_storage().unsafeGetStorageImpl());
}

// What a row says of a tensor's storage.
inline StorageMark mark_of(const c10::TensorImpl& tensor) {
  const Block* block = block_of(tensor);
  return block == nullptr ? StorageMark{} : StorageMark{block->id, block->weight.load(std::memory_order_relaxed)};
}

// The host storage over a device storage's bytes.
c10::Storage host_storage(const c10::StorageImpl& storage);

// A device storage that takes over a host storage's bytes. Raises OutOfMemoryError past the capacity.
c10::Storage adopt(c10::Storage host, c10::DeviceIndex device);

// After a kernel resized the host storage behind `device_storage`: make the device side match. Past the
// capacity, gives the host storage its old size back and raises OutOfMemoryError.
void refresh(c10::StorageImpl& device_storage);

MemoryUse memory_use(c10::DeviceIndex device);
void reset_peak(c10::DeviceIndex device);
void reset_totals(c10::DeviceIndex device);
size_t capacity_bytes(c10::DeviceIndex device);
void set_capacity(c10::DeviceIndex device, size_t bytes, std::string name);

c10::Allocator* device_allocator();

}  // namespace simacc
