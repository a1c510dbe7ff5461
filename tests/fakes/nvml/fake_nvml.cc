#pragma GCC visibility push(default)
#include "tests/fakes/nvml/fake_nvml.h"
#pragma GCC visibility pop

#include <strings.h>

#include <cstdio>
#include <optional>

#include "drivers/nvml/nvml_api.h"

#define FAKE_NVML_EXPORT extern "C" __attribute__((visibility("default")))

using gdr::nvml::Device;
using gdr::nvml::FieldValue;
using gdr::nvml::MemoryInfo;
using gdr::nvml::PciInfo;
using gdr::nvml::Rc;

namespace {

fake_nvml::State state;

fake_nvml::Gpu* gpu_of(Device device) { return reinterpret_cast<fake_nvml::Gpu*>(device); }

// Returns the error with which `function` must fail now; nothing if it is to do its work.
std::optional<Rc> forced_result(Device device, const char* function) {
  if (state.users <= 0) return gdr::nvml::kErrorUninitialized;
  auto failing = gpu_of(device)->failing.find(function);
  if (failing == gpu_of(device)->failing.end()) return std::nullopt;
  return failing->second;
}

fake_nvml::Link* link_of(Device device, unsigned link) {
  auto& links = gpu_of(device)->links;
  return link < links.size() ? &links[link] : nullptr;
}

std::optional<unsigned> c2c_field(const fake_nvml::Gpu& gpu, const FieldValue& asked) {
  unsigned count = static_cast<unsigned>(gpu.c2c_links.size());
  if (count == 0) return std::nullopt;
  if (asked.field == gdr::nvml::kFieldC2cLinkCount) return count;
  if (asked.scope >= count) return std::nullopt;
  const fake_nvml::C2cLink& link = gpu.c2c_links[asked.scope];
  if (asked.field == gdr::nvml::kFieldC2cLinkStatus) return link.up ? 1 : 0;
  if (asked.field == gdr::nvml::kFieldC2cLinkMaxBandwidth && link.has_bandwidth) return 44712;
  return std::nullopt;
}

std::optional<unsigned> field(Device device, const FieldValue& asked) {
  if (asked.field != gdr::nvml::kFieldNvLinkState) return c2c_field(*gpu_of(device), asked);
  const fake_nvml::Link* link = link_of(device, asked.scope);
  if (link == nullptr || gpu_of(device)->capability < 90) return std::nullopt;
  return link->active && link->trained ? 1 : 0;
}

}  // namespace

FAKE_NVML_EXPORT fake_nvml::State* fake_nvml_state() { return &state; }

FAKE_NVML_EXPORT Rc nvmlInit_v2() {
  if (state.init_returns == gdr::nvml::kSuccess) ++state.users;
  return state.init_returns;
}

FAKE_NVML_EXPORT Rc nvmlShutdown() {
  if (state.users <= 0) return gdr::nvml::kErrorUninitialized;
  --state.users;
  return gdr::nvml::kSuccess;
}

FAKE_NVML_EXPORT Rc nvmlDeviceGetHandleByPciBusId(const char* bus_id, Device* device) {
  if (state.users <= 0) return gdr::nvml::kErrorUninitialized;
  for (fake_nvml::Gpu& gpu : state.gpus) {
    if (strcasecmp(gpu.bus_id.c_str(), bus_id) != 0) continue;
    *device = reinterpret_cast<Device>(&gpu);
    return forced_result(*device, __func__).value_or(gdr::nvml::kSuccess);
  }
  return gdr::nvml::kErrorNotFound;
}

FAKE_NVML_EXPORT Rc nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  if (auto rc = forced_result(device, __func__)) return *rc;
  *major = gpu_of(device)->capability / 10;
  *minor = gpu_of(device)->capability % 10;
  return gdr::nvml::kSuccess;
}

FAKE_NVML_EXPORT Rc nvmlDeviceGetNvLinkCapability(Device device, unsigned link, int capability,
                                                  unsigned* has) {
  if (auto rc = forced_result(device, __func__)) return *rc;
  if (gpu_of(device)->links.empty()) return gdr::nvml::kErrorNotSupported;
  fake_nvml::Link* found = link_of(device, link);
  if (found == nullptr || capability != gdr::nvml::kNvLinkP2pSupported) {
    return gdr::nvml::kErrorInvalidArgument;
  }
  found->trained = true;
  *has = found->p2p ? 1 : 0;
  return gdr::nvml::kSuccess;
}

FAKE_NVML_EXPORT Rc nvmlDeviceGetNvLinkState(Device device, unsigned link, int* link_state) {
  if (auto rc = forced_result(device, __func__)) return *rc;
  const fake_nvml::Link* found = link_of(device, link);
  if (found == nullptr) return gdr::nvml::kErrorInvalidArgument;
  if (gpu_of(device)->capability >= 90) return gdr::nvml::kErrorNotSupported;
  *link_state = found->active && found->trained ? 1 : 0;
  return gdr::nvml::kSuccess;
}

FAKE_NVML_EXPORT Rc nvmlDeviceGetNvLinkRemotePciInfo(Device device, unsigned link,
                                                     PciInfo* remote) {
  if (auto rc = forced_result(device, __func__)) return *rc;
  const fake_nvml::Link* found = link_of(device, link);
  if (found == nullptr || !found->active) return gdr::nvml::kErrorInvalidArgument;
  *remote = PciInfo{};
  std::snprintf(remote->bus_id, sizeof(remote->bus_id), "%s", found->remote.c_str());
  return gdr::nvml::kSuccess;
}

FAKE_NVML_EXPORT Rc nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  if (auto rc = forced_result(device, __func__)) return *rc;
  for (int i = 0; i < count; ++i) {
    std::optional<unsigned> answer = field(device, values[i]);
    values[i].rc = answer ? gdr::nvml::kSuccess : gdr::nvml::kErrorNotSupported;
    values[i].value.number = answer.value_or(0xdeadbeef);
  }
  return gdr::nvml::kSuccess;
}

FAKE_NVML_EXPORT Rc nvmlDeviceGetBAR1MemoryInfo(Device device, MemoryInfo* memory) {
  if (auto rc = forced_result(device, __func__)) return *rc;
  const unsigned long long total = gpu_of(device)->bar1_bytes;
  if (total == 0) return gdr::nvml::kErrorNotSupported;
  *memory = {total, total - total / 4, total / 4};  // a quarter is in use
  return gdr::nvml::kSuccess;
}
