#include "transport/device/hca.h"

#include <endian.h>

#include <cerrno>
#include <utility>

namespace gdr::transport {
namespace {

// Of a container without the device file, or a user without the right to open it.
constexpr char kPassDevices[] =
    ". Fix: pass /dev/infiniband into the container (docker run --device /dev/infiniband), and let "
    "the job's user read and write its files";

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

}  // namespace gdr::transport
