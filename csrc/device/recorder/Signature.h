// Signatures: what a cost rule may look at, interned once per process. A call's key is a few words
// (operator, declared attributes, dtypes, sizes, weight bits); equal keys share one number.
#pragma once

#include "Ids.h"

#include <ATen/core/ivalue.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace simacc {

struct TensorMeta {
  c10::ScalarType dtype;
  bool weight;
  std::vector<int64_t> sizes;
};

struct Signature {
  std::string name;
  std::vector<TensorMeta> inputs, outputs;
  std::vector<std::pair<std::string, c10::IValue>> attributes;
  std::vector<std::string> declared;
};

// An operator as the recorder knows it, never changed and never freed: its address begins the key of every call.
struct OpInfo {
  std::string name;  // canonical: aten.mm, simacc.copy_to_host
  struct Attribute {
    size_t argument;
    std::string name;
  };
  std::vector<Attribute> attributes = {};    // the call arguments that its cost rule reads
  std::vector<std::string> declared = {};  // what the rule asked for, whether the schema has it or not
};

// The sizes of the dense tensor that a nested one fits into: what cost rules can read.
std::vector<int64_t> padded_sizes(const c10::TensorImpl& nested);

// One call on its way to the tape.
class Call {
 public:
  explicit Call(const OpInfo& op) : op_(op) {
    words_.push_back(static_cast<int64_t>(reinterpret_cast<intptr_t>(&op)));
  }

  void attribute(const c10::IValue& value);
  void input(const c10::TensorImpl& tensor, StorageMark storage) {
    ++inputs_;
    tensor_words(tensor, storage);
  }
  void output(const c10::TensorImpl& tensor, StorageMark storage) {
    ++outputs_;
    tensor_words(tensor, storage);
  }
  // An event: a zero-byte tensor whose id is the event's.
  void event(int64_t id, bool recorded);

  // Closes the key. Tensors came as inputs first, then outputs.
  std::span<const int64_t> key() {
    words_.push_back(inputs_);
    return {words_.data(), words_.size()};
  }
  std::span<const int64_t> ids() const {
    return {ids_.data(), ids_.size()};
  }

  Signature describe() const;

 private:
  void tensor_words(const c10::TensorImpl& tensor, StorageMark storage) {
    if (C10_UNLIKELY(tensor.is_nested())) {
      tensor_words(tensor, padded_sizes(tensor), storage);
    } else {
      tensor_words(tensor, tensor.sizes(), storage);
    }
  }
  void tensor_words(const c10::TensorImpl& tensor, c10::IntArrayRef sizes, StorageMark storage) {
    words_.push_back(static_cast<int64_t>(tensor.dtype().toScalarType()) |
        (static_cast<int64_t>(storage.weight) << 8) |
        (static_cast<int64_t>(sizes.size()) << 16));
    for (const int64_t n : sizes) {  // few: a call to memmove costs more
      words_.push_back(n);
    }
    ids_.push_back(storage.id);
  }

  const OpInfo& op_;
  int64_t inputs_ = 0, outputs_ = 0;
  size_t tensors_start_ = 1;
  c10::SmallVector<int64_t, 48> words_;
  c10::SmallVector<int64_t, 12> ids_;
  c10::SmallVector<c10::IValue, 0> attribute_values_;
};

// The number of this call's signature; a new one is described and kept.
int32_t intern(Call& call);

// Signatures with numbers from `first` on, for Python to cost.
std::vector<Signature> signatures_from(size_t first);

}  // namespace simacc
