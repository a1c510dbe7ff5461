// An opened HCA: context, protection domain and registrations, shared by all its ports and comms.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "drivers/verbs/handles.h"
#include "transport/device/hca_filter.h"
#include "transport/device/peermem.h"
#include "transport/device/port.h"
#include "transport/device/registration_cache.h"
#include "transport/device/registration_paths.h"

namespace gdr::transport {

class HcaContext {
 public:
  static Result<std::shared_ptr<HcaContext>> open(std::shared_ptr<const verbs::Api> api,
                                                  ibv_device* device);

  const verbs::Api& api() const { return *api_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  const std::string& name() const { return name_; }
  const std::string& sysfs_path() const { return sysfs_path_; }  // the verbs library's ibdev_path
  uint64_t guid() const { return guid_; }
  int port_count() const { return port_count_; }
  int max_work_requests() const { return max_work_requests_; }  // per queue
  int max_cq_entries() const { return max_cq_entries_; }
  // The kernel and the library accept dma-buf registrations on this device.
  bool supports_dmabuf() const { return supports_dmabuf_; }
  // The kernel module by which this device registers GPU memory by its address.
  const Peermem& peermem() const { return peermem_; }
  RegistrationCache& registrations() const { return *registrations_; }

 private:
  HcaContext() = default;
  Status query();

  std::shared_ptr<const verbs::Api> api_;
  verbs::UniqueContext context_;
  verbs::UniquePd pd_;
  std::string name_;
  std::string sysfs_path_;
  uint64_t guid_ = 0;
  int port_count_ = 0;
  int max_work_requests_ = 0;
  int max_cq_entries_ = 0;
  bool supports_dmabuf_ = false;
  Peermem peermem_;
  std::unique_ptr<RegistrationCache> registrations_;
};

// How NCCL can hand GPU memory to an HCA.
struct GdrSupport {
  bool dmabuf = false;   // as a dma-buf (ibv_reg_dmabuf_mr)
  bool address = false;  // by its address: peermem is loaded, or the plugin stages everything

  bool any() const { return dmabuf || address; }
};

// Returns what the HCA supports among the registration paths that the user allows.
GdrSupport gdr_support(const HcaContext& hca, const RegistrationPaths& allowed);

// One port of an HCA, as offered to NCCL as a device.
struct Device {
  std::shared_ptr<HcaContext> hca;
  int port = 1;
  PortState state;  // at discovery
  int rail = -1;    // number of the rail it is, for the peer to compare; -1: not known
};

struct Discovery {
  std::vector<Device> devices;       // active ports that the filter accepts, in list order
  std::vector<Device> inactive;      // other ports that it accepts
  std::vector<std::string> skipped;  // "name:port reason" for each port left out
};

Result<Discovery> discover_devices(const std::shared_ptr<const verbs::Api>& api,
                                   const HcaFilter& filter);

}  // namespace gdr::transport
