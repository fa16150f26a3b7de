// One boxed kernel per operator that has a CPU kernel, registered when the device is initialised,
// and the fallback for operators that come later (torchvision, torch.library).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace simacc {

// Call arguments that belong in signatures, by canonical operator name (what cost rules declare).
using AttributeTable = std::vector<std::pair<std::string, std::vector<std::string>>>;

void register_boxed_kernels(const AttributeTable& attributes);

}  // namespace simacc
