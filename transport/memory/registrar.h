// Registers memory for a comm. Host memory is registered as it is; GPU memory by GPUDirect
// (dma-buf, else nvidia-peermem).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/memory/memory_handle.h"
#include "transport/memory/system_facts.h"

namespace gdr::transport {

// What a user may choose about the registration of memory. Each comment names the variable that
// sets the field; docs/environment.md explains them all.
struct MemoryOptions {
  // GDR_NCCL_GPU_MEMORY and NCCL_DMABUF_ENABLE: the registration paths that may be tried.
  RegistrationPaths gpu_memory;
  // Processes of this machine may send for each other (NCCL's PXN), as they do over NVLink unless
  // NCCL_PXN_DISABLE is 1. See OwnAllocations::claim().
  bool relays = false;
  // NCCL_IB_PCI_RELAXED_ORDERING.
  bool relaxed_ordering = true;
};

// What follows from a failed registration on a rail.
enum class AfterFailure {
  kFail,
  kTryAgain,  // standby pairs have given way for it
  kGoOn,      // the connection goes on without the rail
};

// The part of a connection that a registration depends on. What it points to belongs to the
// connection and outlives the registration.
struct RegistrationScope {
  struct Rail {
    std::shared_ptr<HcaContext> hca;  // null: the connection has given the rail up
    // Where what is registered on a rail is kept, as it stands by; null: in the handle.
    std::shared_ptr<StandbyRegistrations> standby = nullptr;
  };
  std::vector<Rail> rails;
  OwnAllocations* own;
  bool sends;  // this is the sending end
  // room_for: bytes for which standby pairs of other connections may give way; 0: none may.
  std::function<AfterFailure(size_t rail, size_t room_for, const Error& why)> on_failure =
      [](auto...) { return AfterFailure::kFail; };
};

// How many regions were registered on an HCA: GPU memory, by RegistrationPath, and host memory.
struct RegistrationCounts {
  std::array<uint64_t, kRegistrationPathCount> gpu{};
  uint64_t host = 0;
};

// Thread-safe: NCCL registers from its service threads while progress threads move data.
class Registrar {
 public:
  explicit Registrar(std::shared_ptr<const MemoryOptions> options) : options_(std::move(options)) {}

  // Registers the region on every rail of the scope but those that the connection has lost with
  // their HCA, and those that only stand by and cannot register it, which the connection then gives
  // up. Errors: kSystem with the cause and fix of each registration path; kDeclined where an HCA
  // refuses a user's buffer (OwnAllocations), as NCCL then does without the registration. From then
  // on the slots of NCCL's own buffers state it (wire::kAfterDecline).
  Result<std::unique_ptr<MemoryHandle>> register_memory(const RegistrationScope& scope,
                                                        const MemoryRegion& region);

  // Returns how many regions were registered so far on each HCA, by its name.
  std::map<std::string, RegistrationCounts> counts() const;

 private:
  // Registers on one rail, and adds the registration to the handle. gpu: of GPU memory.
  Status register_on(const RegistrationScope::Rail& on, size_t rail, const MemoryRegion& region,
                     const GpuIdentity& gpu, MemoryHandle* handle);
  // The error of GPU memory that was refused on a rail which the connection cannot do without.
  Error refused(const std::string& pair, const MemoryRegion& region, bool is_users,
                const Error& why);
  bool log_once(const std::string& what);

  std::shared_ptr<const MemoryOptions> options_;
  SlotFlags own_flags_{0};                            // of NCCL's own buffers in GPU memory
  mutable std::mutex mutex_;                          // guards all that follows
  std::map<std::string, RegistrationCounts> counts_;  // by HCA
  std::set<std::string> logged_;                      // what is logged once per process
};

}  // namespace gdr::transport
