#include "Generator.h"

#include "Block.h"

#include <ATen/CPUGeneratorImpl.h>

#include <array>

namespace simacc {
namespace {

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  GeneratorImpl(c10::DeviceIndex device, at::Generator host)
      : c10::GeneratorImpl(c10::Device(kDeviceType, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  void set_current_seed(uint64_t seed) override {
    host_.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override {
    host_.set_offset(offset);
  }
  uint64_t get_offset() const override {
    return host_.get_offset();
  }
  uint64_t current_seed() const override {
    return host_.current_seed();
  }
  uint64_t seed() override {
    return host_.seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    host_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host_.unsafeGetGeneratorImpl()->get_state();
  }
  const at::Generator& host() const {
    return host_;
  }

 private:
  GeneratorImpl* clone_impl() const override {
    return new GeneratorImpl(device().index(), host_.clone());
  }

  at::Generator host_;
};

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* generators = new std::array<at::Generator, kMostDevices>([] {
    std::array<at::Generator, kMostDevices> all;
    for (c10::DeviceIndex index = 0; index < kMostDevices; ++index) {
      all.at(index) = at::make_generator<GeneratorImpl>(index, at::detail::createCPUGenerator());
    }
    return all;
  }());
  return generators->at(index_or_current(device));
}

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<GeneratorImpl>(index_or_current(device), at::detail::createCPUGenerator());
}

at::Generator host_generator(const at::Generator& generator, c10::DeviceIndex device) {
  const at::Generator& chosen = generator.defined() ? generator : default_generator(device);
  TORCH_CHECK(chosen.device().type() == kDeviceType, "Expected a 'simacc' device type for generator but found '",
      chosen.device().type(), "'");
  return static_cast<const GeneratorImpl*>(chosen.unsafeGetGeneratorImpl())->host();
}

}  // namespace simacc
