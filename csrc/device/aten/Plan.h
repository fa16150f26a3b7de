// What a boxed kernel needs to know of an operator's schema, read once.
#pragma once

#include "Operator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace simacc {

struct Plan {
  enum class Kind : uint8_t { kTensor, kTensorList, kOptionalTensorList, kDevice, kGenerator };

  struct Argument {
    uint16_t index;
    Kind kind;
    bool read;           // its contents are an input
    bool written;        // the schema says it is mutated
    bool allows_cpu;     // indices and the like may stay on the host
    bool not_returned;   // written, but no return aliases it
  };

  static constexpr int16_t kFresh = -1;   // a new tensor, or a view
  static constexpr int16_t kOnHost = -2;  // a tensor that stays on the host, as PyTorch wants it there
  Operator op;
  // Per return: the argument it is (a mutated tensor handed back), or one of the above.
  std::vector<int16_t> returned_argument;
  std::vector<Argument> arguments;
  size_t argument_count = 0;
  bool recorded = true;        // false: moves no data (views, resize_)
  bool synchronizes = false;   // the host needs a value or a size that only the data tells
  bool index_masks = false;    // synchronizes where an index is a mask
  bool reads_to_host = false;  // .item(): recorded as a copy to the host

  explicit Plan(const c10::OperatorHandle& handle);
};

// Whether every tensor the schema returns is a view of an argument that it does not write.
bool returns_views(const c10::FunctionSchema& schema);

}  // namespace simacc
