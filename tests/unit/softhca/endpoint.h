// A device with a PD, a CQ and a QP for tests, driven through the exported verbs alone.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace softhca_test {

// What the other end has to know to connect.
struct Address {
  uint32_t qpn = 0;
  uint16_t lid = 0;
  ibv_gid gid = {};
};

struct Options {
  int device = 0;
  int cqe = 256;
  uint32_t send_wr = 64;
  uint32_t recv_wr = 64;
  ibv_qp_type type = IBV_QPT_RC;
  bool sig_all = false;
  bool channel = false;
  uint8_t timeout = 8;  // 4.096 us x 2^8: about 1 ms a try
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 1;
  uint8_t port = 1;
  uint8_t gid_index = 0;  // of the GID that address() has, and that is sent from
  bool grh = false;       // address the peer by a GRH on InfiniBand, too
  uint8_t hop_limit = 64;
  unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  uint32_t sq_psn = 0;
  uint32_t rq_psn = 0;
  ibv_mtu path_mtu = IBV_MTU_1024;
  uint8_t max_rd_atomic = 4;
  uint8_t max_dest_rd_atomic = 4;
};

constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

template <class T, int (*Delete)(T*)>
struct Deleter {
  void operator()(T* handle) const { Delete(handle); }
};
using ContextPtr = std::unique_ptr<ibv_context, Deleter<ibv_context, ibv_close_device>>;
using PdPtr = std::unique_ptr<ibv_pd, Deleter<ibv_pd, ibv_dealloc_pd>>;
using CqPtr = std::unique_ptr<ibv_cq, Deleter<ibv_cq, ibv_destroy_cq>>;
using QpPtr = std::unique_ptr<ibv_qp, Deleter<ibv_qp, ibv_destroy_qp>>;
using MrPtr = std::unique_ptr<ibv_mr, Deleter<ibv_mr, ibv_dereg_mr>>;
using ChannelPtr =
    std::unique_ptr<ibv_comp_channel, Deleter<ibv_comp_channel, ibv_destroy_comp_channel>>;

ContextPtr open_device(int index);
// A QP with room for four requests of each kind.
QpPtr make_qp(ibv_pd* pd, ibv_cq* cq, ibv_qp_type type = IBV_QPT_RC);
// The first line of a file of the device in sysfs.
std::string sysfs(ibv_context* context, const std::string& name);

class Endpoint {
 public:
  explicit Endpoint(const Options& options = {});

  ibv_context* context() { return context_.get(); }
  ibv_pd* pd() { return pd_.get(); }
  ibv_cq* cq() { return cq_.get(); }
  ibv_qp* qp() { return qp_.get(); }
  Options& options() { return options_; }  // of the next connect()
  ibv_comp_channel* channel() { return channel_.get(); }
  void drop_qp() { qp_.reset(); }

  Address address();
  ibv_port_attr query_port();
  int to_init();
  int to_rtr(const Address& peer);
  int to_rts();
  int to_state(ibv_qp_state state);
  // Moves the QP through INIT and RTR to RTS, and asserts that each step succeeds.
  void connect(const Address& peer);
  // The same for another QP of this device and type. Returns 0 or an errno value.
  int connect_qp(ibv_qp* qp, const Address& peer);
  ibv_qp_attr query();
  ibv_qp_state state() { return query().qp_state; }

  MrPtr reg(void* address, size_t bytes, int access = kAllAccess);
  int recv(uint64_t wr_id, ibv_sge sge);
  int recv_empty(uint64_t wr_id);

  // Waits for the next completion. Its status is -1 when none comes within the (generous) time
  // limit.
  ibv_wc wait();
  // Returns true when nothing completes for a short time.
  bool quiet();
  // Waits for the next asynchronous event and acknowledges it. `port` becomes that of a port event.
  ibv_event_type wait_event(int* port = nullptr);

 private:
  Options options_;
  ContextPtr context_;
  PdPtr pd_;
  ChannelPtr channel_;
  CqPtr cq_;
  QpPtr qp_;
};

// Two endpoints connected with each other.
struct Pair {
  explicit Pair(const Options& a_options = {}, const Options& b_options = {});
  // The next packet number of a, and the one that b expects.
  std::pair<uint32_t, uint32_t> numbers() { return {a.query().sq_psn, b.query().rq_psn}; }
  Endpoint a;
  Endpoint b;
};

// Registered memory.
struct Buffer {
  Buffer(Endpoint& endpoint, size_t size, int access = kAllAccess);
  ibv_sge sge(size_t offset, size_t length) const;
  ibv_sge sge() const { return sge(0, bytes.size()); }
  uint64_t address(size_t offset = 0) const {
    return reinterpret_cast<uint64_t>(bytes.data()) + offset;
  }
  uint32_t rkey() const { return mr->rkey; }
  void fill(uint8_t seed);

  std::vector<uint8_t> bytes;
  MrPtr mr;
};

// A signaled request with one SGE, or with none when the length is 0.
struct Request {
  Request(ibv_wr_opcode opcode, ibv_sge source, uint64_t remote = 0, uint32_t rkey = 0);
  // Of registered memory, from an offset on.
  template <class Registered, class = decltype(&Registered::rkey)>
  Request(ibv_wr_opcode opcode, ibv_sge source, const Registered& remote, size_t offset = 0)
      : Request(opcode, source, remote.address(offset), remote.rkey()) {}
  int post(ibv_qp* qp);
  ibv_sge sge;
  ibv_send_wr wr = {};
};

// Two connected endpoints, with a buffer at each.
struct Buffers : Pair {
  explicit Buffers(size_t bytes, const Options& a_options = {}, const Options& b_options = {})
      : Pair(a_options, b_options), from(a, bytes), to(b, bytes) {}
  // Of all bytes of both.
  Request request(ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) const {
    return Request(opcode, from.sge(), to);
  }
  Buffer from;
  Buffer to;
};

// Posts a request, which has to be accepted.
void post(Endpoint& from, Request request);

// Also waits for the next completion, and returns its status.
ibv_wc_status status_of(Endpoint& from, const Request& request);

// The same for a write of no bytes.
ibv_wc_status write_nothing(Endpoint& from);

}  // namespace softhca_test
