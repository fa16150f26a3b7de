#include "Signature.h"

#include "SpinLock.h"

#include <ATen/NestedTensorImpl.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_map>

namespace simacc {
namespace {

using Words = std::vector<int64_t>;

struct WordsHash {
  using is_transparent = void;
  // Words are multiplied independently of each other, so that a processor overlaps them; the rotation tells places
  // apart.
  size_t operator()(std::span<const int64_t> words) const noexcept {
    uint64_t h = words.size();
    int place = 0;
    for (const int64_t w : words) {
      h ^= std::rotl(static_cast<uint64_t>(w) * 0xff51afd7ed558ccdULL, place += 11);
    }
    h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15ULL;
    return h ^ (h >> 29);
  }
};

struct WordsEqual {
  using is_transparent = void;
  bool operator()(std::span<const int64_t> a, std::span<const int64_t> b) const noexcept {
    return std::ranges::equal(a, b);
  }
};

struct Table {
  SpinLock lock;
  std::unordered_map<Words, int32_t, WordsHash, WordsEqual> numbers;
  std::vector<Signature> signatures;
};

Table& table() {
  static auto* t = new Table;  // outlives every thread that may still record at exit
  return *t;
}

}  // namespace

std::vector<int64_t> padded_sizes(const c10::TensorImpl& nested) {
  const auto& rows = static_cast<const at::native::NestedTensorImpl&>(nested).get_nested_sizes();  // one per tensor
  if (rows.dim() < 2) {
    return {0};
  }
  const int64_t count = rows.size(0), dims = rows.size(1);
  std::vector<int64_t> sizes(dims + 1, 0);
  sizes[0] = count;
  const auto* data = rows.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < count * dims; ++i) {
    auto& size = sizes[1 + i % dims];
    size = std::max(size, data[i]);
  }
  return sizes;
}

void Call::attribute(const c10::IValue& value) {
  // A tag, then the value; strings by length and hash of contents are enough for dtype-like names.
  if (value.isInt()) {
    words_.append({1, value.toInt()});
  } else if (value.isBool()) {
    words_.append({2, value.toBool()});
  } else if (value.isDouble()) {
    words_.append({3, std::bit_cast<int64_t>(value.toDouble())});
  } else if (value.isIntList() || value.isSymIntList()) {
    const auto list = value.toIntVector();
    words_.append({4, static_cast<int64_t>(list.size())});
    words_.append(list.begin(), list.end());
  } else if (value.isBoolList()) {
    const auto list = value.toBoolList();
    words_.append({5, static_cast<int64_t>(list.size())});
    for (const bool b : list) {
      words_.push_back(b);
    }
  } else if (value.isDoubleList()) {
    const auto list = value.toDoubleVector();
    words_.append({8, static_cast<int64_t>(list.size())});
    for (const double d : list) {
      words_.push_back(std::bit_cast<int64_t>(d));
    }
  } else if (value.isString()) {
    words_.append({6, static_cast<int64_t>(std::hash<std::string>{}(value.toStringRef()))});
  } else {
    words_.push_back(value.isNone() ? 0 : 7);  // tensors and others are not attributes
  }
  attribute_values_.push_back(value);
  tensors_start_ = words_.size();
}

void Call::event(int64_t id, bool recorded) {
  ++(recorded ? outputs_ : inputs_);
  words_.append({static_cast<int64_t>(c10::ScalarType::Byte) | (int64_t{1} << 16), 0});
  ids_.push_back(id);
}

Signature Call::describe() const {
  Signature out{op_.name, {}, {}, {}, op_.declared};
  for (size_t i = 0; i < attribute_values_.size(); ++i) {
    out.attributes.emplace_back(op_.attributes[i].name, attribute_values_[i]);
  }
  size_t at = tensors_start_;
  for (int64_t i = 0; i < inputs_ + outputs_; ++i) {
    const int64_t head = words_[at];
    const auto dims = static_cast<size_t>(head >> 16);
    TensorMeta meta{static_cast<c10::ScalarType>(head & 0xff), (head >> 8 & 1) != 0,
        {words_.begin() + at + 1, words_.begin() + at + 1 + dims}};
    (i < inputs_ ? out.inputs : out.outputs).push_back(std::move(meta));
    at += 1 + dims;
  }
  return out;
}

int32_t intern(Call& call) {
  const auto key = call.key();
  auto& t = table();
  const std::lock_guard<SpinLock> lock(t.lock);
  if (const auto found = t.numbers.find(key); found != t.numbers.end()) {
    return found->second;
  }
  const auto number = static_cast<int32_t>(t.signatures.size());
  t.signatures.push_back(call.describe());
  t.numbers.emplace(Words(key.begin(), key.end()), number);
  return number;
}

std::vector<Signature> signatures_from(size_t first) {
  auto& t = table();
  const std::lock_guard<SpinLock> lock(t.lock);
  return {t.signatures.begin() + static_cast<std::ptrdiff_t>(std::min(first, t.signatures.size())), t.signatures.end()};
}

}  // namespace simacc
