// Strided nested tensors: what crosses devices or makes their storage. All other operators of theirs come to Boxed.cpp's
// fallback, and are the CPU's.
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/empty_like_native.h>
#include <torch/library.h>

namespace simacc {

// PyTorch's kernels for the CPU work on the dense tensor behind the nested one, wherever that is.
TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("_to_copy", at::native::_to_copy_nested);
  m.impl("copy_", at::native::copy_nested_);
  m.impl("empty_like", at::native::empty_like_nested);
}

}  // namespace simacc
