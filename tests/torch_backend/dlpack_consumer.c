/* A library that knows DLPack and nothing of PyTorch or simacc: it reads a tensor through the exchange table. */
#include <ATen/dlpack.h>

#include <stddef.h>

typedef struct {
  int64_t version, device_type, device_id, ndim, bits, lanes, code, bytes_offset;
  int64_t shape[8], strides[8];
  void *data, *stream;
} Seen;

static void fill(const DLTensor* t, Seen* seen) {
  seen->device_type = t->device.device_type;
  seen->device_id = t->device.device_id;
  seen->ndim = t->ndim;
  seen->code = t->dtype.code;
  seen->bits = t->dtype.bits;
  seen->lanes = t->dtype.lanes;
  seen->bytes_offset = (int64_t)t->byte_offset;
  seen->data = t->data;
  for (int i = 0; i < t->ndim && i < 8; ++i) {
    seen->shape[i] = t->shape[i];
    seen->strides[i] = t->strides == NULL ? -1 : t->strides[i];
  }
}

/* Borrows: nothing outlives the call. */
int look(const DLPackExchangeAPI* api, void* tensor, Seen* seen) {
  DLTensor t;
  if (api->dltensor_from_py_object_no_sync(tensor, &t) != 0) {
    return -1;
  }
  fill(&t, seen);
  seen->version = api->header.version.major;
  return api->current_work_stream(t.device.device_type, t.device.device_id, &seen->stream);
}

/* Owns: the tensor goes there and back, doubled on the way. The memory is the host's, which a consumer of an extension
   device has to know. */
int doubled(const DLPackExchangeAPI* api, void* tensor, void** out) {
  DLManagedTensorVersioned* managed = NULL;
  if (api->managed_tensor_from_py_object_no_sync(tensor, &managed) != 0) {
    return -1;
  }
  int64_t n = 1;
  for (int i = 0; i < managed->dl_tensor.ndim; ++i) {
    n *= managed->dl_tensor.shape[i];
  }
  float* values = (float*)((char*)managed->dl_tensor.data + managed->dl_tensor.byte_offset);
  for (int64_t i = 0; i < n; ++i) {
    values[i] *= 2;
  }
  return api->managed_tensor_to_py_object_no_sync(managed, out);
}

/* Owns: takes a tensor and lets go of it. */
int dropped(const DLPackExchangeAPI* api, void* tensor) {
  DLManagedTensorVersioned* managed = NULL;
  if (api->managed_tensor_from_py_object_no_sync(tensor, &managed) != 0) {
    return -1;
  }
  managed->deleter(managed);
  return 0;
}

static void no_error(void* context, const char* kind, const char* message) {
  (void)context;
  (void)kind;
  (void)message;
}

/* Makes a tensor as another one is: two rows of three floats there. */
int like(const DLPackExchangeAPI* api, void* tensor, void** out) {
  DLTensor prototype;
  DLManagedTensorVersioned* managed = NULL;
  int64_t shape[2] = {2, 3};
  if (api->dltensor_from_py_object_no_sync(tensor, &prototype) != 0) {
    return -1;
  }
  prototype.ndim = 2;
  prototype.shape = shape;
  prototype.strides = NULL;
  if (api->managed_tensor_allocator(&prototype, &managed, NULL, no_error) != 0) {
    return -2;
  }
  return api->managed_tensor_to_py_object_no_sync(managed, out);
}
