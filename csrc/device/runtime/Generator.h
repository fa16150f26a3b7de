// Random numbers: a device generator is a CPU generator of its own, so that a fresh seed gives the
// same numbers as a fresh CPU generator.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace simacc {

const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);

// The CPU generator that a device generator (or, where undefined, the default one) draws from.
at::Generator host_generator(const at::Generator& generator, c10::DeviceIndex device);

}  // namespace simacc
