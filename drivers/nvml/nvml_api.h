// The part of NVIDIA's management library (NVML) that this tree calls, as one struct of functions.
// The prototypes are our own, so that building and starting need no NVML; libnvidia-ml.so.1 is
// bound at run time. Source: nvml.h, and NCCL's src/include/nvmlwrap.h for the symbols: newer
// releases of nvml.h define some of the plain names as later versions (_v3) with other layouts, so
// each is bound by the exact symbol that NCCL binds.
#pragma once

#include <dlfcn.h>

#include <cstddef>

// NVIDIA's opaque handle, declared by the tag of nvml.h, so that both headers name one type.
struct nvmlDevice_st;  // NOLINT(readability-identifier-naming)

namespace gdr::nvml {

using Rc = int;  // nvmlReturn_t
using Device = nvmlDevice_st*;

// Values of nvmlReturn_t.
inline constexpr Rc kSuccess = 0;
inline constexpr Rc kErrorUninitialized = 1;
inline constexpr Rc kErrorInvalidArgument = 2;
inline constexpr Rc kErrorNotSupported = 3;
inline constexpr Rc kErrorNotFound = 6;
inline constexpr Rc kErrorDriverNotLoaded = 9;

inline constexpr int kFeatureEnabled = 1;      // NVML_FEATURE_ENABLED
inline constexpr int kNvLinkP2pSupported = 0;  // NVML_NVLINK_CAP_P2P_SUPPORTED
// Field numbers (NVML_FI_DEV_*) of FieldValue. A field of a single link takes the link's number as
// its scope.
inline constexpr unsigned kFieldNvLinkState = 165;
inline constexpr unsigned kFieldC2cLinkCount = 170;
inline constexpr unsigned kFieldC2cLinkStatus = 171;
inline constexpr unsigned kFieldC2cLinkMaxBandwidth = 172;

// The first version of nvmlPciInfo_t, which nvmlDeviceGetNvLinkRemotePciInfo without a suffix
// fills.
struct PciInfo {
  char bus_id[16];  // zero-terminated, such as "0000:1A:00.0"
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_and_vendor;
  unsigned subsystem;
  unsigned reserved[4];
};
static_assert(sizeof(PciInfo) == 52);

// The layout of nvmlFieldValue_t. `value` is valid only if `rc`, the result of this one field, is
// kSuccess.
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

// The layout of nvmlMemory_t (its first version) and of nvmlBAR1Memory_t, in bytes.
struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(MemoryInfo) == 24);

// The library's functions; the exact symbols are in bind() below. A member is null if the library
// lacks the symbol.
struct Api {
  Rc (*init)();  // reference-counted: each successful call needs one shutdown()
  Rc (*shutdown)();
  Rc (*device_by_pci_bus_id)(const char* bus_id, Device* device);
  Rc (*compute_capability)(Device device, int* major, int* minor);
  Rc (*nvlink_capability)(Device device, unsigned link, int capability, unsigned* has);
  Rc (*nvlink_state)(Device device, unsigned link, int* state);
  Rc (*nvlink_remote_pci_info)(Device device, unsigned link, PciInfo* remote);
  Rc (*field_values)(Device device, int count, FieldValue* values);
  Rc (*bar1_memory_info)(Device device, MemoryInfo* memory);
};

// Binds an Api to a libnvidia-ml.so.1 that the caller opened by dlopen and keeps open.
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
  find("nvmlDeviceGetBAR1MemoryInfo", api.bar1_memory_info);
  return api;
}

}  // namespace gdr::nvml
