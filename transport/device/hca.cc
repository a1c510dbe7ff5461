#include "transport/device/hca.h"

#include <endian.h>

#include <cerrno>
#include <span>
#include <utility>

namespace gdr::transport {
namespace {

constexpr char kLoadDriver[] =
    "load the HCA's driver and ib_uverbs; to try without hardware: nccl-gdr with-softhca COMMAND";
// Of a container without the device file, or a user without the right to open it.
constexpr char kPassDevices[] =
    ". Fix: pass /dev/infiniband into the container (docker run --device /dev/infiniband), and let "
    "the job's user read and write its files";

Finding unknown_speed(const std::string& port) {
  return {FindingKind::kPortSpeed, Severity::kWarning, port,
          "the speed of the port is unknown; NCCL is given " +
              std::to_string(kAssumedSpeedMbps / 1000) + " Gb/s and may use too few channels",
          "update rdma-core, or set the NIC's speed in a file for NCCL_TOPO_FILE"};
}

void add_port(Device device, const std::string& label, const DiscoveryOptions& options,
              Discovery* discovery) {
  const HcaContext& hca = *device.hca;
  Result<PortState> state = query_port_state(hca.api(), hca.context(), device.port);
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

Result<std::shared_ptr<HcaContext>> HcaContext::open(std::shared_ptr<const verbs::Api> api,
                                                     ibv_device* device, bool data_direct) {
  std::shared_ptr<HcaContext> hca(new HcaContext());
  hca->name_ = api->get_device_name(device);
  hca->sysfs_path_ = device->ibdev_path;
  hca->context_ = verbs::UniqueContext(api->open_device(device), {api.get()});
  hca->api_ = std::move(api);
  if (hca->context_ == nullptr) {
    const int err = errno;
    auto failed = fail_errno(Code::kSystem, "opening " + hca->name_ + " failed", err);
    if (err == EACCES || err == EPERM || err == ENOENT) failed.value().text += kPassDevices;
    return failed;
  }
  if (Status status = hca->query(data_direct); !status) return forward_error(status);
  return hca;
}

Status HcaContext::query(bool data_direct) {
  ibv_device_attr attr{};
  if (int err = api_->query_device(context_.get(), &attr); err != 0) {
    return fail_errno(Code::kSystem, "querying " + name_ + " failed", err);
  }
  guid_ = be64toh(attr.sys_image_guid != 0 ? attr.sys_image_guid : attr.node_guid);
  port_count_ = attr.phys_port_cnt;
  max_work_requests_ = attr.max_qp_wr;
  pd_ = verbs::UniquePd(api_->alloc_pd(context_.get()), {api_.get()});
  if (pd_ == nullptr) {
    return fail_errno(Code::kSystem, "allocating a protection domain on " + name_ + " failed",
                      errno);
  }
  supports_dmabuf_ = transport::supports_dmabuf(*api_, pd_.get());
  peermem_ = probe_peermem(sysfs_root_of(sysfs_path_));
  if (supports_dmabuf_ && data_direct) {
    data_direct_path_ = find_data_direct(*api_, pd_.get());
  }
  registrations_ =
      std::make_unique<RegistrationCache>(*api_, pd_.get(), name_, !data_direct_path_.empty());
  port_states_ = std::make_unique<PortStates>(*api_, context_.get());
  return {};
}

void HcaContext::on_event(ibv_event_type type) const {
  port_states_->drop();
  if (type == IBV_EVENT_DEVICE_FATAL) fatal_.store(true, std::memory_order_relaxed);
}

bool HcaContext::is_gone() const {
  if (fatal_.load(std::memory_order_relaxed)) return true;
  ibv_device_attr attr{};
  return api_->query_device(context_.get(), &attr) != 0;
}

std::string to_string(const Device& device) {
  return device.hca->name() + ":" + std::to_string(device.port);
}

RegistrationPaths gdr_support(const HcaContext& hca, const RegistrationPaths& allowed) {
  return allowed & RegistrationPaths{hca.supports_dmabuf(), is_present(hca.peermem())};
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

}  // namespace gdr::transport
