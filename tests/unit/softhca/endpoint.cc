#include "tests/unit/softhca/endpoint.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace softhca_test {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kMoment = std::chrono::milliseconds(30);

int to_init(ibv_qp* qp, const Options& options) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = options.port;
  attr.qp_access_flags = options.access;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int to_rtr(ibv_qp* qp, const Options& options, const Address& peer) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = options.path_mtu;
  attr.rq_psn = options.rq_psn;
  attr.dest_qp_num = peer.qpn;
  attr.max_dest_rd_atomic = options.max_dest_rd_atomic;
  attr.min_rnr_timer = options.min_rnr_timer;
  attr.ah_attr.dlid = peer.lid;
  attr.ah_attr.port_num = options.port;
  if (peer.lid == 0 || options.grh) {
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = options.gid_index;
    attr.ah_attr.grh.hop_limit = options.hop_limit;
  }
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (options.type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return ibv_modify_qp(qp, &attr, mask);
}

int to_rts(ibv_qp* qp, const Options& options) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_cnt;
  attr.rnr_retry = options.rnr_retry;
  attr.sq_psn = options.sq_psn;
  attr.max_rd_atomic = options.max_rd_atomic;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (options.type == IBV_QPT_RC) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return ibv_modify_qp(qp, &attr, mask);
}

}  // namespace

ContextPtr open_device(int index) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ContextPtr context(index < count ? ibv_open_device(list[index]) : nullptr);
  ibv_free_device_list(list);
  return context;
}

QpPtr make_qp(ibv_pd* pd, ibv_cq* cq, ibv_qp_type type) {
  ibv_qp_init_attr attr = {};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {4, 4, 1, 1, 0};
  attr.qp_type = type;
  return QpPtr(ibv_create_qp(pd, &attr));
}

std::string sysfs(ibv_context* context, const std::string& name) {
  std::string text;
  std::getline(std::ifstream(std::string(context->device->ibdev_path) + "/" + name), text);
  return text;
}

Endpoint::Endpoint(const Options& options) : options_(options) {
  context_ = open_device(options.device);
  if (context_ == nullptr) throw std::runtime_error("no device");
  pd_.reset(ibv_alloc_pd(context()));
  if (options.channel) channel_.reset(ibv_create_comp_channel(context()));
  cq_.reset(ibv_create_cq(context(), options.cqe, this, channel(), 0));
  if (cq_ == nullptr) throw std::runtime_error("no CQ");
  ibv_qp_init_attr_ex attr = {};
  attr.send_cq = attr.recv_cq = cq();
  attr.cap = {options.send_wr, options.recv_wr, 4, 4, 256};
  attr.qp_type = options.type;
  attr.sq_sig_all = options.sig_all ? 1 : 0;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd();
  attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;
  qp_.reset(ibv_create_qp_ex(context(), &attr));
  if (qp_ == nullptr) throw std::runtime_error("no QP");
}

ibv_port_attr Endpoint::query_port() {
  ibv_port_attr port = {};
  EXPECT_EQ(ibv_query_port(context(), options_.port, &port), 0);
  return port;
}

Address Endpoint::address() {
  Address address;
  EXPECT_EQ(ibv_query_gid(context(), options_.port, options_.gid_index, &address.gid), 0);
  address.qpn = qp()->qp_num;
  address.lid = query_port().lid;
  return address;
}

int Endpoint::to_init() { return softhca_test::to_init(qp(), options_); }

int Endpoint::to_rtr(const Address& peer) { return softhca_test::to_rtr(qp(), options_, peer); }

int Endpoint::to_rts() { return softhca_test::to_rts(qp(), options_); }

int Endpoint::connect_qp(ibv_qp* qp, const Address& peer) {
  int rc = softhca_test::to_init(qp, options_);
  if (rc == 0) rc = softhca_test::to_rtr(qp, options_, peer);
  return rc == 0 ? softhca_test::to_rts(qp, options_) : rc;
}

int Endpoint::to_state(ibv_qp_state state) {
  ibv_qp_attr attr = {};
  attr.qp_state = state;
  return ibv_modify_qp(qp(), &attr, IBV_QP_STATE);
}

void Endpoint::connect(const Address& peer) {
  ASSERT_EQ(to_init(), 0);
  ASSERT_EQ(to_rtr(peer), 0);
  ASSERT_EQ(to_rts(), 0);
}

ibv_qp_attr Endpoint::query() {
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  EXPECT_EQ(ibv_query_qp(qp(), &attr, IBV_QP_STATE, &init), 0);
  return attr;
}

MrPtr Endpoint::reg(void* address, size_t bytes, int access) {
  return MrPtr(ibv_reg_mr(pd(), address, bytes, access));
}

int Endpoint::recv(uint64_t wr_id, ibv_sge sge) {
  ibv_recv_wr wr = {};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp(), &wr, &bad);
}

int Endpoint::recv_empty(uint64_t wr_id) {
  ibv_recv_wr wr = {};
  wr.wr_id = wr_id;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp(), &wr, &bad);
}

ibv_wc Endpoint::wait() {
  ibv_wc wc = {};
  for (auto end = Clock::now() + kPatience; Clock::now() < end; std::this_thread::yield()) {
    if (ibv_poll_cq(cq(), 1, &wc) == 1) return wc;
  }
  wc.status = static_cast<ibv_wc_status>(-1);
  return wc;
}

bool Endpoint::quiet() {
  std::this_thread::sleep_for(kMoment);
  ibv_wc wc = {};
  return ibv_poll_cq(cq(), 1, &wc) == 0;
}

ibv_event_type Endpoint::wait_event(int* port) {
  pollfd fd = {context()->async_fd, POLLIN, 0};
  ibv_async_event event = {};
  if (poll(&fd, 1, 30000) != 1 || ibv_get_async_event(context(), &event) != 0) {
    return static_cast<ibv_event_type>(-1);
  }
  ibv_ack_async_event(&event);
  if (port != nullptr) *port = event.element.port_num;
  return event.event_type;
}

Pair::Pair(const Options& a_options, const Options& b_options) : a(a_options), b(b_options) {
  a.connect(b.address());
  b.connect(a.address());
}

Buffer::Buffer(Endpoint& endpoint, size_t size, int access)
    : bytes(size), mr(endpoint.reg(bytes.data(), size, access)) {
  EXPECT_NE(mr, nullptr);
}

ibv_sge Buffer::sge(size_t offset, size_t length) const {
  return {address(offset), static_cast<uint32_t>(length), mr->lkey};
}

void Buffer::fill(uint8_t seed) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(seed + i * 7 + i / 251);
}

Request::Request(ibv_wr_opcode opcode, ibv_sge source, uint64_t remote, uint32_t rkey)
    : sge(source) {
  wr.wr_id = 1;
  wr.sg_list = &sge;
  wr.num_sge = source.length == 0 ? 0 : 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = remote;
  wr.wr.rdma.rkey = rkey;
}

int Request::post(ibv_qp* qp) {
  wr.sg_list = &sge;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}

void post(Endpoint& from, Request request) { EXPECT_EQ(request.post(from.qp()), 0); }

ibv_wc_status status_of(Endpoint& from, const Request& request) {
  post(from, request);
  return from.wait().status;
}

ibv_wc_status write_nothing(Endpoint& from) {
  return status_of(from, Request(IBV_WR_RDMA_WRITE, {}));
}

}  // namespace softhca_test
