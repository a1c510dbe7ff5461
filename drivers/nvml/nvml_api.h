// The part of NVIDIA's management library (NVML) that this tree calls, bound at run time: our own
// prototypes, so that nothing here needs NVML to build or to start. They are those that NCCL binds,
// by the same names: NVML's header gives some of these names to later versions with other layouts.
#pragma once

#include <dlfcn.h>

#include <cstddef>

// NVIDIA's opaque handle, under its own tag so that both declarations name one type.
struct nvmlDevice_st;  // NOLINT(readability-identifier-naming)

namespace gdr::nvml {

using Rc = int;  // nvmlReturn_t
using Device = nvmlDevice_st*;

inline constexpr Rc kSuccess = 0;
inline constexpr Rc kErrorUninitialized = 1;
inline constexpr Rc kErrorInvalidArgument = 2;
inline constexpr Rc kErrorNotSupported = 3;
inline constexpr Rc kErrorNotFound = 6;
inline constexpr Rc kErrorDriverNotLoaded = 9;

inline constexpr int kFeatureEnabled = 1;
inline constexpr int kNvLinkP2pSupported = 0;  // a capability
// Fields; those of one link take its number as scope.
inline constexpr unsigned kFieldNvLinkState = 165;
inline constexpr unsigned kFieldC2cLinkCount = 170;
inline constexpr unsigned kFieldC2cLinkStatus = 171;
inline constexpr unsigned kFieldC2cLinkMaxBandwidth = 172;

// nvmlPciInfo_t as of nvmlDeviceGetNvLinkRemotePciInfo without a version.
struct PciInfo {
  char bus_id[16];  // ends with a 0
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_and_vendor;
  unsigned subsystem;
  unsigned reserved[4];
};
static_assert(sizeof(PciInfo) == 52);

// nvmlFieldValue_t. rc is the field's own, and value is nothing where that is no success.
struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency_us;
  int value_type;
  Rc rc;
  union {
    double floating;
    unsigned number;
    unsigned long long wide;
  } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, rc) == 28 &&
              offsetof(FieldValue, value) == 32);

// Each member is the library's function of that name; null where the library has none.
struct Api {
  Rc (*init)();  // counts its callers, and so does shutdown
  Rc (*shutdown)();
  Rc (*device_by_pci_bus_id)(const char* bus_id, Device* device);
  Rc (*compute_capability)(Device device, int* major, int* minor);
  Rc (*nvlink_capability)(Device device, unsigned link, int capability, unsigned* has);
  Rc (*nvlink_state)(Device device, unsigned link, int* state);
  Rc (*nvlink_remote_pci_info)(Device device, unsigned link, PciInfo* remote);
  Rc (*field_values)(Device device, int count, FieldValue* values);
};

// From a libnvidia-ml that the caller opened and keeps open.
inline Api bind(void* library) {
  Api api{};
  auto find = [library]<class Function>(const char* name, Function*& slot) {
    slot = reinterpret_cast<Function*>(dlsym(library, name));
  };
  find("nvmlInit_v2", api.init);
  find("nvmlShutdown", api.shutdown);
  find("nvmlDeviceGetHandleByPciBusId", api.device_by_pci_bus_id);
  find("nvmlDeviceGetCudaComputeCapability", api.compute_capability);
  find("nvmlDeviceGetNvLinkCapability", api.nvlink_capability);
  find("nvmlDeviceGetNvLinkState", api.nvlink_state);
  find("nvmlDeviceGetNvLinkRemotePciInfo", api.nvlink_remote_pci_info);
  find("nvmlDeviceGetFieldValues", api.field_values);
  return api;
}

}  // namespace gdr::nvml
