// Making and destroying objects: the functions of verbs::Api.
#include "tests/fakes/verbs/objects.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace fake_verbs {

void fill_hot_calls(ibv_context_ops* ops);

namespace {

// ibv_get_device_list has no argument by which to find the fabric.
FakeVerbs* g_fabric = nullptr;

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

// A step of a reliable-connected QP and the attributes that it must set (ibv_modify_qp(3)).
struct Step {
  ibv_qp_state from;
  ibv_qp_state to;
  int mask;
  Call call;
};
constexpr Step kSteps[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, kInitMask, Call::kModifyToInit},
    {IBV_QPS_INIT, IBV_QPS_RTR, kRtrMask, Call::kModifyToRtr},
    {IBV_QPS_RTR, IBV_QPS_RTS, kRtsMask, Call::kModifyToRts},
};

void merge(const ibv_qp_attr& from, int mask, ibv_qp_attr* to) {
  auto take = [&](int bit, auto ibv_qp_attr::*member) {
    if ((mask & bit) != 0) to->*member = from.*member;
  };
  take(IBV_QP_STATE, &ibv_qp_attr::qp_state);
  take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
}

}  // namespace

HcaConfig HcaConfig::infiniband(const std::string& name, uint16_t number) {
  HcaConfig config;
  config.name = name;
  config.guid = 0x1000 + number;
  Gid gid;
  gid.raw = {0xfe, 0x80};
  gid.raw[15] = static_cast<uint8_t>(number);
  config.ports = {Port{.lid = number, .gids = {gid}}};
  return config;
}

HcaConfig HcaConfig::roce(const std::string& name, uint8_t number) {
  HcaConfig config;
  config.name = name;
  config.guid = 0x2000 + number;
  Gid gid;
  gid.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, number};
  gid.type = IBV_GID_TYPE_ROCE_V2;
  config.ports = {Port{.ethernet = true, .gids = {gid}}};
  return config;
}

// What is in the CQ stays there, as some HCAs leave it.
void FakeVerbs::reset(Qp& qp) {
  std::erase_if(in_flight_, [&](const Transfer& transfer) { return transfer.qp_num == qp.qp_num; });
  qp.receives.clear();
  qp.ece_set.reset();
  qp.ece_options = static_cast<Context*>(qp.context)->hca->config.ece_options.value_or(0);
  qp.occupied = qp.complete_unsignalled = 0;
  for (Cq* cq : {static_cast<Cq*>(qp.send_cq), static_cast<Cq*>(qp.recv_cq)}) {
    for (Completion& completion : cq->completions) {
      if (completion.wc.qp_num == qp.qp_num) completion.retired = 0;
    }
  }
  qp.now = IBV_QPS_RESET;
}

int FakeVerbs::modify(Qp& qp, const ibv_qp_attr& attr, int mask) {
  if (attr.qp_state == IBV_QPS_ERR) {
    if (fails(Call::kModifyToError)) return errno;
    enter_error(qp);
    qp.state = IBV_QPS_ERR;
    return 0;
  }
  if (attr.qp_state == IBV_QPS_RESET) {
    if (fails(Call::kModifyToReset)) return errno;
    reset(qp);
    qp.state = IBV_QPS_RESET;
    return 0;
  }
  for (const Step& step : kSteps) {
    if (step.to != attr.qp_state) continue;
    if (fails(step.call)) return errno;
    if (qp.now != step.from || (mask & step.mask) != step.mask) return EINVAL;
    merge(attr, mask, &qp.attr);
    qp.now = qp.state = step.to;
    qp.takes_sends = step.to == IBV_QPS_RTS;
    if (qp.ece_set) {
      const HcaConfig& config = static_cast<Context*>(qp.context)->hca->config;
      qp.ece_options = *std::exchange(qp.ece_set, std::nullopt) & config.ece_options.value_or(0);
    }
    return 0;
  }
  return EINVAL;
}

ibv_mr* FakeVerbs::make_mr(ibv_pd* pd, Call call, void* address, size_t bytes, uint64_t iova,
                           int access) {
  std::lock_guard lock(mutex_);
  if (fails(call)) return nullptr;
  auto* mr = new Mr();
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = bytes;
  mr->iova = iova;
  mr->access = access;
  // Different, so that one used for the other is noticed.
  mr->lkey = next_key_++;
  mr->rkey = next_key_++;
  by_lkey_[mr->lkey] = mr;
  by_rkey_[mr->rkey] = mr;
  ++static_cast<Pd*>(pd)->users;
  ++live_.mrs;
  return mr;
}

struct Entry {
  static const Port& port_of(ibv_context* context, uint32_t number) {
    return static_cast<Context*>(context)->hca->config.ports.at(number - 1);
  }
  static ibv_device** get_device_list(int* count) {
    if (g_fabric->fails(Call::kGetDeviceList)) return nullptr;
    const auto& hcas = g_fabric->hcas_;
    auto** list = new ibv_device*[hcas.size() + 1]();
    for (size_t i = 0; i < hcas.size(); ++i) list[i] = hcas[i].get();
    *count = static_cast<int>(hcas.size());
    return list;
  }
  static void free_device_list(ibv_device** list) { delete[] list; }
  static const char* get_device_name(ibv_device* device) { return device->name; }

  static ibv_context* open_device(ibv_device* device) {
    auto* hca = static_cast<Hca*>(device);
    std::lock_guard lock(hca->fabric->mutex_);
    if (hca->fabric->fails(Call::kOpenDevice)) return nullptr;
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return nullptr;
    auto* context = new Context();
    context->device = device;
    context->fabric = hca->fabric;
    context->hca = hca;
    context->events_read.reset(fds[0]);
    context->events_write.reset(fds[1]);
    context->async_fd = fds[0];
    fill_hot_calls(&context->ops);
    hca->fabric->contexts_.push_back(context);
    ++hca->fabric->live_.contexts;
    return context;
  }
  static int close_device(ibv_context* raw) {
    FakeVerbs& fabric = fabric_of(raw);
    std::lock_guard lock(fabric.mutex_);
    auto* context = static_cast<Context*>(raw);
    require(context->users == 0, "a device is closed before its PDs and CQs are destroyed");
    std::erase(fabric.contexts_, context);
    --fabric.live_.contexts;
    delete context;
    return 0;
  }

  static int query_device(ibv_context* raw, ibv_device_attr* attr) {
    FakeVerbs& fabric = fabric_of(raw);
    std::lock_guard lock(fabric.mutex_);
    if (fabric.fails(Call::kQueryDevice)) return errno;
    const HcaConfig& config = static_cast<Context*>(raw)->hca->config;
    *attr = {};
    attr->node_guid = htobe64(config.guid);
    attr->sys_image_guid = htobe64(config.guid);
    attr->phys_port_cnt = static_cast<uint8_t>(config.ports.size());
    attr->max_qp_wr = config.max_work_requests;
    attr->max_cqe = config.max_cq_entries;
    return 0;
  }
  static int query_port(ibv_context* raw, uint8_t number, ibv_port_attr* attr) {
    FakeVerbs& fabric = fabric_of(raw);
    std::lock_guard lock(fabric.mutex_);
    if (fabric.fails(Call::kQueryPort)) return errno;
    const HcaConfig& config = static_cast<Context*>(raw)->hca->config;
    if (number < 1 || number > config.ports.size()) return EINVAL;
    const Port& port = config.ports[number - 1];
    *attr = {};
    attr->state = port.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr->link_layer = port.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    if (port.other_link_layer >= 0) attr->link_layer = static_cast<uint8_t>(port.other_link_layer);
    attr->lid = port.lid;
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = port.mtu;
    attr->gid_tbl_len = static_cast<int>(port.gids.size());
    attr->flags = port.flags;
    attr->max_msg_sz = port.max_msg_sz;
    return 0;
  }
  static int query_port_speed(ibv_context* raw, uint32_t number, uint64_t* speed) {
    std::lock_guard lock(fabric_of(raw).mutex_);
    *speed = port_of(raw, number).effective_speed;
    return *speed != 0 ? 0 : EOPNOTSUPP;
  }
  static ssize_t query_gid_table(ibv_context* raw, ibv_gid_entry* entries, size_t max_entries,
                                 uint32_t, size_t) {
    std::lock_guard lock(fabric_of(raw).mutex_);
    const HcaConfig& config = static_cast<Context*>(raw)->hca->config;
    size_t count = 0;
    for (size_t port = 0; port < config.ports.size(); ++port) {
      const std::vector<Gid>& gids = config.ports[port].gids;
      for (size_t index = 0; index < gids.size(); ++index) {
        if (gids[index].raw == Gid{}.raw) continue;
        if (count == max_entries) return -EINVAL;
        ibv_gid_entry& entry = entries[count++] = {};
        std::copy(gids[index].raw.begin(), gids[index].raw.end(), entry.gid.raw);
        entry.gid_index = static_cast<uint32_t>(index);
        entry.port_num = static_cast<uint32_t>(port + 1);
        entry.gid_type = gids[index].type;
      }
    }
    return static_cast<ssize_t>(count);
  }
  // Without the lock: the pipe is all that it touches, and a reader may be another thread.
  static int get_async_event(ibv_context* context, ibv_async_event* event) {
    return read(context->async_fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
  }
  static void ack_async_event(ibv_async_event*) {}
  static const char* event_type_str(ibv_event_type type) {
    return type == IBV_EVENT_QP_FATAL ? "local work queue catastrophic error" : "an event";
  }

  static ibv_pd* alloc_pd(ibv_context* context) {
    FakeVerbs& fabric = fabric_of(context);
    std::lock_guard lock(fabric.mutex_);
    if (fabric.fails(Call::kAllocPd)) return nullptr;
    auto* pd = new Pd();
    pd->context = context;
    ++static_cast<Context*>(context)->users;
    ++fabric.live_.pds;
    return pd;
  }
  static int dealloc_pd(ibv_pd* pd) {
    FakeVerbs& fabric = fabric_of(pd->context);
    std::lock_guard lock(fabric.mutex_);
    require(static_cast<Pd*>(pd)->users == 0, "a PD is deallocated before its MRs and QPs");
    --static_cast<Context*>(pd->context)->users;
    --fabric.live_.pds;
    delete static_cast<Pd*>(pd);
    return 0;
  }

  static ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t bytes, int access) {
    return fabric_of(pd->context)
        .make_mr(pd, Call::kRegMr, address, bytes, reinterpret_cast<uint64_t>(address), access);
  }
  static ibv_mr* reg_mr_iova2(ibv_pd* pd, void* address, size_t bytes, uint64_t iova,
                              unsigned access) {
    return fabric_of(pd->context)
        .make_mr(pd, Call::kRegMr, address, bytes, iova, static_cast<int>(access));
  }
  static ibv_mr* reg_dmabuf_mr(ibv_pd* pd, uint64_t, size_t bytes, uint64_t iova, int fd,
                               int access) {
    const bool known = static_cast<Context*>(pd->context)->hca->config.dmabuf;
    if (!known || fcntl(fd, F_GETFD) < 0) {
      errno = known ? EBADF : EOPNOTSUPP;
      return nullptr;
    }
    return fabric_of(pd->context)
        .make_mr(pd, Call::kRegDmabufMr, reinterpret_cast<void*>(iova), bytes, iova, access);
  }
  static bool is_mlx5(ibv_device* device) {
    return static_cast<Hca*>(device)->config.name.starts_with("mlx5");
  }
  static int get_data_direct_sysfs_path(ibv_context* context, char* path, size_t room) {
    const std::string& known = static_cast<Context*>(context)->hca->config.data_direct_path;
    if (known.empty()) return ENODEV;
    if (known.size() >= room) return ENOSPC;
    std::strcpy(path, known.c_str());
    return 0;
  }
  static ibv_mr* mlx5_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access, int mlx5_access) {
    FakeVerbs& fabric = fabric_of(pd->context);
    std::lock_guard lock(fabric.mutex_);
    if (mlx5_access == gdr::verbs::kMlx5DataDirect && fabric.fails(Call::kRegDataDirectMr)) {
      return nullptr;
    }
    ibv_mr* mr = reg_dmabuf_mr(pd, offset, bytes, iova, fd, access);
    if (mr != nullptr && mlx5_access == gdr::verbs::kMlx5DataDirect) ++fabric.data_direct_mrs_;
    return mr;
  }
  static const gdr::verbs::Mlx5Api* mlx5() {
    static const gdr::verbs::Mlx5Api api{is_mlx5, get_data_direct_sysfs_path, mlx5_reg_dmabuf_mr};
    return &api;
  }
  static int dereg_mr(ibv_mr* raw) {
    FakeVerbs& fabric = fabric_of(raw->context);
    std::lock_guard lock(fabric.mutex_);
    fabric.on_destroy_("dereg_mr");
    auto* mr = static_cast<Mr*>(raw);
    fabric.by_lkey_.erase(mr->lkey);
    fabric.by_rkey_.erase(mr->rkey);
    --static_cast<Pd*>(mr->pd)->users;
    --fabric.live_.mrs;
    delete mr;
    return 0;
  }

  static ibv_cq* create_cq(ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
    FakeVerbs& fabric = fabric_of(context);
    std::lock_guard lock(fabric.mutex_);
    if (fabric.fails(Call::kCreateCq)) return nullptr;
    if (entries < 1 || entries > static_cast<Context*>(context)->hca->config.max_cq_entries) {
      errno = EINVAL;
      return nullptr;
    }
    auto* cq = new Cq();
    cq->context = context;
    cq->cqe = entries;
    ++static_cast<Context*>(context)->users;
    fabric.cqs_.push_back(cq);
    ++fabric.live_.cqs;
    return cq;
  }
  static int destroy_cq(ibv_cq* raw) {
    FakeVerbs& fabric = fabric_of(raw->context);
    std::lock_guard lock(fabric.mutex_);
    if (fabric.fails(Call::kDestroyCq)) return errno;
    fabric.on_destroy_("destroy_cq");
    auto* cq = static_cast<Cq*>(raw);
    // libbnxt_re and libsiw unmap parts of a CQ before the kernel refuses that (EBUSY).
    require(cq->users == 0, "a CQ is destroyed before its QPs");
    --static_cast<Context*>(cq->context)->users;
    std::erase(fabric.cqs_, cq);
    --fabric.live_.cqs;
    delete cq;
    return 0;
  }

  static ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
    FakeVerbs& fabric = fabric_of(pd->context);
    std::lock_guard lock(fabric.mutex_);
    if (fabric.fails(Call::kCreateQp)) return nullptr;
    const HcaConfig& config = static_cast<Context*>(pd->context)->hca->config;
    const auto most = static_cast<uint32_t>(config.max_work_requests);
    if (attr->qp_type != IBV_QPT_RC || attr->cap.max_inline_data > config.max_inline_bytes ||
        attr->cap.max_send_wr > most || attr->cap.max_recv_wr > most) {
      errno = EINVAL;
      return nullptr;
    }
    const auto on_hca = std::ranges::count_if(
        fabric.qps_, [&](const auto& one) { return one.second->context == pd->context; });
    if (static_cast<size_t>(on_hca) >= config.max_qps) {
      errno = ENOMEM;
      return nullptr;
    }
    auto* qp = new Qp();
    qp->context = pd->context;
    qp->pd = pd;
    qp->send_cq = attr->send_cq;
    qp->recv_cq = attr->recv_cq;
    qp->qp_type = attr->qp_type;
    qp->state = IBV_QPS_RESET;
    qp->qp_num = fabric.next_qp_num_++;
    qp->cap = attr->cap;
    qp->ece_options = config.ece_options.value_or(0);
    ++static_cast<Pd*>(pd)->users;
    ++static_cast<Cq*>(qp->send_cq)->users;
    ++static_cast<Cq*>(qp->recv_cq)->users;
    fabric.qps_[qp->qp_num] = qp;
    ++fabric.live_.qps;
    return qp;
  }
  static int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
    FakeVerbs& fabric = fabric_of(qp->context);
    std::lock_guard lock(fabric.mutex_);
    return fabric.modify(*static_cast<Qp*>(qp), *attr, mask);
  }
  // As mlx5 does it: what is set takes effect with the next change of state.
  static int set_ece(ibv_qp* raw, ibv_ece* ece) {
    FakeVerbs& fabric = fabric_of(raw->context);
    std::lock_guard lock(fabric.mutex_);
    if (fabric.fails(Call::kSetEce)) return errno;
    const HcaConfig& config = static_cast<Context*>(raw->context)->hca->config;
    if (!config.ece_options) return EOPNOTSUPP;
    if (ece->vendor_id != config.ece_vendor || ece->comp_mask != 0) return EINVAL;
    Qp& qp = *static_cast<Qp*>(raw);
    qp.ece_set = ece->options;
    qp.ece_set_in.push_back(qp.state);
    return 0;
  }
  static int query_ece(ibv_qp* raw, ibv_ece* ece) {
    FakeVerbs& fabric = fabric_of(raw->context);
    std::lock_guard lock(fabric.mutex_);
    if (fabric.fails(Call::kQueryEce)) return errno;
    const HcaConfig& config = static_cast<Context*>(raw->context)->hca->config;
    if (!config.ece_options) return EOPNOTSUPP;
    *ece = {config.ece_vendor, static_cast<Qp*>(raw)->ece_options, 0};
    return 0;
  }
  static int destroy_qp(ibv_qp* raw) {
    FakeVerbs& fabric = fabric_of(raw->context);
    fabric.on_destroy_("destroy_qp");  // may wait for other threads
    std::lock_guard lock(fabric.mutex_);
    if (fabric.fails(Call::kDestroyQp)) return errno;
    auto* qp = static_cast<Qp*>(raw);
    std::erase_if(fabric.in_flight_, [&](const Transfer& t) { return t.qp_num == qp->qp_num; });
    for (ibv_cq* cq : {qp->send_cq, qp->recv_cq}) {
      std::erase_if(static_cast<Cq*>(cq)->completions,
                    [&](const Completion& c) { return c.wc.qp_num == qp->qp_num; });
      --static_cast<Cq*>(cq)->users;
    }
    --static_cast<Pd*>(qp->pd)->users;
    fabric.qps_.erase(qp->qp_num);
    --fabric.live_.qps;
    delete qp;
    return 0;
  }

  static gdr::verbs::Api api() {
    gdr::verbs::Api api;
    api.get_device_list = get_device_list;
    api.free_device_list = free_device_list;
    api.get_device_name = get_device_name;
    api.open_device = open_device;
    api.close_device = close_device;
    api.query_device = query_device;
    api.query_port = query_port;
    api.query_port_speed = query_port_speed;
    api.query_gid_table = query_gid_table;
    api.get_async_event = get_async_event;
    api.ack_async_event = ack_async_event;
    api.event_type_str = event_type_str;
    api.alloc_pd = alloc_pd;
    api.dealloc_pd = dealloc_pd;
    api.reg_mr = reg_mr;
    api.reg_mr_iova2 = reg_mr_iova2;
    api.reg_dmabuf_mr = reg_dmabuf_mr;
    api.mlx5 = mlx5;
    api.dereg_mr = dereg_mr;
    api.create_cq = create_cq;
    api.destroy_cq = destroy_cq;
    api.create_qp = create_qp;
    api.modify_qp = modify_qp;
    api.destroy_qp = destroy_qp;
    api.set_ece = set_ece;
    api.query_ece = query_ece;
    return api;
  }
};

FakeVerbs::FakeVerbs() : api_(std::make_shared<gdr::verbs::Api>(Entry::api())) {
  require(std::exchange(g_fabric, this) == nullptr, "there can be one fabric at a time");
}

FakeVerbs::~FakeVerbs() {
  require(live_ == LiveObjects{}, "the fabric is destroyed before the objects on it");
  g_fabric = nullptr;
}

ibv_device* FakeVerbs::add_hca(const HcaConfig& config) {
  std::lock_guard lock(mutex_);
  auto hca = std::make_unique<Hca>();
  hca->fabric = this;
  hca->config = config;
  std::snprintf(hca->name, sizeof(hca->name), "%s", config.name.c_str());
  std::snprintf(hca->ibdev_path, sizeof(hca->ibdev_path), "%s", config.sysfs_path.c_str());
  hca->transport_type = config.transport;
  hcas_.push_back(std::move(hca));
  return hcas_.back().get();
}

}  // namespace fake_verbs
