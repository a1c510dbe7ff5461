#include "plugin/discovery/discovery.h"

#include <cerrno>
#include <climits>
#include <map>
#include <span>

#include "topology/sources/sysfs_files.h"

namespace gdr::discovery {
namespace {

using transport::HcaContext;
using transport::PortState;

constexpr char kLoadDriver[] =
    "load the HCA's driver and ib_uverbs; to try without hardware: nccl-gdr with-softhca COMMAND";

Finding unknown_speed(const std::string& port) {
  return {FindingKind::kPortSpeed, Severity::kWarning, port,
          "the speed of the port is unknown; NCCL is given " +
              std::to_string(kAssumedSpeedMbps / 1000) + " Gb/s and may use too few channels",
          "update rdma-core, or set the NIC's speed in a file for NCCL_TOPO_FILE"};
}

void add_port(Device device, const std::string& label, const DiscoveryOptions& options,
              Discovery* discovery) {
  const HcaContext& hca = *device.hca;
  Result<PortState> state = transport::query_port_state(hca.api(), hca.context(), device.port);
  if (!state) {
    discovery->skipped.push_back(
        {FindingKind::kHcaFailed, label, "cannot be queried: " + state.error().text});
    return;
  }
  const bool named = options.hcas.entry_for(hca.name(), device.port) != nullptr;
  if (const std::string reason =
          exclusion_reason(hca.context()->device->transport_type, state->link_layer, named);
      !reason.empty()) {
    discovery->skipped.push_back({FindingKind::kHcaUnsupported, label, reason});
    return;
  }
  device.state = *state;
  device.speed_mbps =
      port_speed_mbps(hca.api(), hca.context(), device.port, options.query_port_speed);
  if (!state->active) {
    discovery->skipped.push_back({FindingKind::kPortDown, label, "is not ACTIVE"});
    discovery->inactive.push_back(std::move(device));
    return;
  }
  if (device.speed_mbps == 0) discovery->findings.push_back(unknown_speed(label));
  discovery->devices.push_back(std::move(device));
}

void add_ports(const std::shared_ptr<HcaContext>& hca, const DiscoveryOptions& options,
               Discovery* discovery) {
  for (int port = 1; port <= hca->port_count(); ++port) {
    std::string label = hca->name() + ":" + std::to_string(port);
    if (options.hcas.accepts(hca->name(), port)) {
      add_port(Device{.hca = hca, .port = port, .state = {}}, label, options, discovery);
    } else {
      discovery->skipped.push_back({FindingKind::kHcaExcluded, label, HcaFilter::kExcluded});
    }
  }
}

void add_names(const std::string& hca, int port_count, HcaFilter::Ports* ports) {
  for (int port = 1; port <= port_count; ++port) ports->emplace_back(hca, port);
}

}  // namespace

std::string to_string(const SkippedPort& skipped) {
  return skipped.port.empty() ? skipped.reason : skipped.port + " " + skipped.reason;
}

std::string exclusion_reason(ibv_transport_type transport, uint8_t link_layer, bool named) {
  const bool is_ethernet = link_layer == IBV_LINK_LAYER_ETHERNET;
  if (transport == IBV_TRANSPORT_IWARP && !(named && is_ethernet)) {
    return "is an iWARP device, whose queue pairs mostly connect only by the RDMA connection "
           "manager, which NCCL and this plugin do not use. Fix: if they connect without, as those "
           "of eRDMA in its compatible mode do, name the device in NCCL_IB_HCA";
  }
  if (transport != IBV_TRANSPORT_IB && transport != IBV_TRANSPORT_IWARP) {
    return "is neither InfiniBand nor RoCE, as an Elastic Fabric Adapter (EFA), and has no "
           "reliable "
           "connections. Fix: use the network plugin of its vendor, for EFA aws-ofi-nccl";
  }
  if (!is_ethernet && link_layer != IBV_LINK_LAYER_INFINIBAND) {
    return "has a link layer that is neither InfiniBand nor Ethernet";
  }
  return "";
}

int port_speed_mbps(const verbs::Api& api, ibv_context* context, int port,
                    bool use_query_port_speed) {
  constexpr uint64_t kUnitMbps = 100;
  uint64_t units = 0;
  if (use_query_port_speed && api.query_port_speed != nullptr &&
      api.query_port_speed(context, static_cast<uint32_t>(port), &units) == 0 && units > 0 &&
      units <= INT_MAX / kUnitMbps) {
    return static_cast<int>(units * kUnitMbps);
  }
  const std::string folder = std::string(context->device->ibdev_path) + "/ports/";
  return topology::rate_mbps(topology::first_line(folder + std::to_string(port) + "/rate"));
}

std::string no_device_text(const std::vector<SkippedPort>& skipped) {
  TextAndFix all{"no usable RDMA device", ""};
  for (const SkippedPort& one : skipped) {
    const TextAndFix parts = split_fix("; " + to_string(one));
    all.text += parts.text;
    if (!parts.fix.empty()) all.fix = parts.fix;
  }
  if (skipped.empty()) all = {all.text + ": the verbs library lists none", kLoadDriver};
  all.text += ". NCCL continues with another transport unless NCCL_NET=GDR";
  return to_string(all);
}

Result<Discovery> discover_devices(const std::shared_ptr<const verbs::Api>& api,
                                   const DiscoveryOptions& options) {
  int count = 0;
  const verbs::UniqueDeviceList list(api->get_device_list(&count), {api.get()});
  if (list == nullptr && errno == ENOSYS) {
    return fail(Code::kSystem,
                std::string("no RDMA device: the kernel has no RDMA support loaded "
                            "(/sys/class/infiniband_verbs is missing). Fix: ") +
                    kLoadDriver,
                ENOSYS);
  }
  if (list == nullptr) {
    return fail_errno(Code::kSystem, "listing RDMA devices failed", errno);
  }
  Discovery discovery;
  HcaFilter::Ports ports;
  for (ibv_device* device : std::span(list.get(), static_cast<size_t>(count))) {
    Result<std::shared_ptr<HcaContext>> hca = HcaContext::open(api, device, options.data_direct);
    if (!hca) {
      discovery.skipped.push_back({FindingKind::kHcaFailed, "", hca.error().text});
      add_names(api->get_device_name(device), 255, &ports);  // any may exist
      continue;
    }
    add_names((*hca)->name(), (*hca)->port_count(), &ports);
    add_ports(*hca, options, &discovery);
  }
  const Findings of_list = options.hcas.findings_on(ports);
  discovery.findings.insert(discovery.findings.end(), of_list.begin(), of_list.end());
  return discovery;
}

Findings same_gids(const std::vector<std::pair<std::string, Gid>>& ports) {
  std::map<Gid, std::pair<int, std::string>> by_gid;  // how many, and "mlx5_0:1, mlx5_1:1"
  for (const auto& [label, gid] : ports) {
    auto& [count, labels] = by_gid[gid];
    labels += (++count == 1 ? "" : ", ") + label;
  }
  Findings findings;
  for (const auto& [gid, same] : by_gid) {
    if (same.first == 1) continue;
    findings.push_back({FindingKind::kSameGid, Severity::kWarning, same.second,
                        "the ports have one GID, " + transport::to_string(gid) +
                            ": the network may deliver packets for one port to another",
                        "give each port an address of its own, without a bond over both, or leave "
                        "out all but one by NCCL_IB_HCA"});
  }
  return findings;
}

}  // namespace gdr::discovery
