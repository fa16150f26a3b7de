// torch.autocast("simacc"): PyTorch's own lists of operators to run in lower precision or in float32.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

namespace at::autocast {

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT32_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  LOWER(mkldnn_rnn_layer)  // what an LSTM's layer is here; accelerators' lists have theirs
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_DTYPE)
  AT_FORALL_PROMOTE(PROMOTE)
#undef LOWER
#undef FLOAT32
#undef FLOAT32_DTYPE
#undef PROMOTE
}

}  // namespace at::autocast
