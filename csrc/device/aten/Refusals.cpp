#include "Refusals.h"

#include <c10/util/Exception.h>

namespace simacc {

void refuse_other_device(c10::Device device, c10::Device other, const std::string& argument, const std::string& op) {
  C10_THROW_ERROR(Error,
      c10::str("Expected all tensors to be on the same device, but found at least two devices, ", device, " and ", other,
          "! (when checking argument for argument ", argument, " in method ", op, ")"));
}

void refuse_tensors(const std::string& kind, const std::string& op) {
  const char* word = kind.rfind("Sparse", 0) == 0 ? "sparse" : kind == "Mkldnn" ? "oneDNN" : kind.c_str();
  C10_THROW_ERROR(NotImplementedError,
      c10::str("simacc has no ", word, " tensors, which '", op,
          "' makes or takes; run this part on the CPU (.cpu()) and move the dense result back"));
}

void refuse_operator(const std::string& op, const std::string& kind) {
  C10_THROW_ERROR(NotImplementedError,
      c10::str("Could not run '", op, "' on ", kind, kind.empty() ? "" : "tensors of ",
          "the 'simacc' device: it has no CPU kernel to compute with"));
}

}  // namespace simacc
