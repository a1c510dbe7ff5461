// HCAs and their ports.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/finding.h"
#include "base/result.h"
#include "drivers/verbs/handles.h"
#include "transport/device/port.h"
#include "transport/device/registration_cache.h"
#include "transport/device/registration_paths.h"

namespace gdr::transport {

// An opened HCA: its context, its one protection domain, and the registrations in that, shared by
// all of its ports and comms. What the getters return is read once, when the HCA is opened.
class HcaContext {
 public:
  static Result<std::shared_ptr<HcaContext>> open(std::shared_ptr<const verbs::Api> api,
                                                  ibv_device* device, bool data_direct = false);

  const verbs::Api& api() const { return *api_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  const std::string& name() const { return name_; }
  // "/sys/class/infiniband/mlx5_0": ibv_device::ibdev_path.
  const std::string& sysfs_path() const { return sysfs_path_; }
  // The system image GUID, which is the same for all HCAs on one card; the node GUID without one.
  // In host byte order.
  uint64_t guid() const { return guid_; }
  int port_count() const { return port_count_; }
  // The most outstanding work requests of one queue (ibv_device_attr::max_qp_wr).
  int max_work_requests() const { return max_work_requests_; }
  // The kernel, the HCA's driver and the verbs library support the registration of dma-bufs.
  bool supports_dmabuf() const { return supports_dmabuf_; }
  // The HCA's Data Direct function in sysfs, by which dma-bufs are registered: every receive into
  // GPU memory must then be flushed. "" without, or where it is not used.
  const std::string& data_direct_path() const { return data_direct_path_; }
  // The kernel module, if loaded, by which this HCA can register GPU memory by its address.
  const Peermem& peermem() const { return peermem_; }
  RegistrationCache& registrations() const { return *registrations_; }
  PortStates& port_states() const { return *port_states_; }

  // Takes note of an asynchronous event of this HCA. Thread-safe.
  void on_event(ibv_event_type type) const;
  // Whether the HCA cannot be used any more: it has reported a fatal error, or the kernel does not
  // even describe it. One call that fails says less: a registration fails with EIO for reasons of
  // the memory, too. Thread-safe; may ask the kernel.
  bool is_gone() const;

 private:
  HcaContext() = default;
  Status query(bool data_direct);

  std::shared_ptr<const verbs::Api> api_;
  verbs::UniqueContext context_;
  verbs::UniquePd pd_;
  std::string name_;
  std::string sysfs_path_;
  uint64_t guid_ = 0;
  int port_count_ = 0;
  int max_work_requests_ = 0;
  bool supports_dmabuf_ = false;
  std::string data_direct_path_;
  Peermem peermem_;
  std::unique_ptr<RegistrationCache> registrations_;
  std::unique_ptr<PortStates> port_states_;
  mutable std::atomic<bool> fatal_{false};  // IBV_EVENT_DEVICE_FATAL was reported
};

// Returns what the HCA supports among the registration paths that the user allows.
RegistrationPaths gdr_support(const HcaContext& hca, const RegistrationPaths& allowed);

// A port of an HCA. The plugin offers each to NCCL as one device.
struct Device {
  std::shared_ptr<HcaContext> hca;
  int port = 1;
  PortState state;     // at discovery
  int rail = -1;       // the port's rail, for the peer to compare with its own; -1: unknown
  int speed_mbps = 0;  // at discovery (port_speed_mbps()); 0: unknown
};

// "mlx5_0:1".
std::string to_string(const Device& device);

}  // namespace gdr::transport
