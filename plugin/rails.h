// Rails at work: which devices NCCL is offered, in which order, and what is said when it uses them
// otherwise than the machine suggests.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/config/options.h"
#include "topology/live/rail_decision.h"
#include "topology/sources/sysfs_rdma.h"
#include "transport/device/hca.h"

namespace gdr::transport {
class Connection;
}

namespace gdr::plugin {

class Rails {
 public:
  // Looks at the machine and decides. The discovered ports that are rails, in order of their
  // numbers, are devices() then. May set NCCL_TOPO_FILE.
  Rails(config::Options options, transport::Discovery* discovery);

  const std::vector<transport::Device>& devices() const { return devices_; }
  const topology::RailDecision& view() const { return view_; }
  // What NCCL is to be told of where a device is: its own function where a topology file has it,
  // else the one that stands for its card.
  std::string reported_path(const topology::PciPlace& place) const;

  // The map for the log, once.
  void log() const;
  // NCCL asked for this device from the calling thread, whose GPU is the current CUDA device's:
  // says once where there is no GPUDirect between them, which GDR_NCCL_STRICT makes an error unless
  // it is for their distance, since NCCL also tries devices that it will not use. Thread-safe.
  Status check_device(int device);
  // Says once where the two ends are on different rails. Thread-safe.
  void check_rails(transport::Connection& connection);

 private:
  topology::RailDecision look(const config::Options& options,
                              const transport::Discovery& discovery);
  void choose(const transport::Discovery& discovery);
  void generate_topology(const config::Options& options);
  bool log_once(const std::string& what);

  topology::RailDecision view_;
  std::vector<transport::Device> devices_;
  std::string generated_file_;
  std::set<topology::Bdf> in_file_;  // HCAs that NCCL's topology file has
  bool merge_functions_;
  bool warn_cross_rail_;
  bool strict_;
  transport::RegistrationPaths allowed_paths_;
  std::mutex mutex_;  // guards said_
  std::set<std::string> logged_;
};

}  // namespace gdr::plugin
