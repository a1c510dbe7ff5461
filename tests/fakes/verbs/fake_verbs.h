// An in-process fabric behind verbs::Api: HCAs whose reliable-connected QPs write straight
// into each other's registered memory. Nothing happens by itself: a transfer runs inside the call
// that posts it or, while deliveries are held back, inside deliver(). README.md has the rules.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "drivers/verbs/verbs_api.h"

namespace fake_verbs {

struct Gid {
  std::array<uint8_t, 16> raw{};  // network order
  uint32_t type = IBV_GID_TYPE_IB;
};

struct Port {
  bool active = true;
  bool ethernet = false;      // RoCE; else InfiniBand
  int other_link_layer = -1;  // IBV_LINK_LAYER_*; -1: as `ethernet` says
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_4096;
  std::vector<Gid> gids;            // by index
  uint8_t flags = 0;                // IBV_QPF_GRH_REQUIRED
  uint32_t max_msg_sz = 1u << 30;   // bytes; 0: not reported
  uint64_t effective_speed = 2000;  // of ibv_query_port_speed, in 100 Mb/s; 0: it fails
};

struct HcaConfig {
  std::string name = "fake_0";
  std::vector<Port> ports;  // port 1 first
  uint64_t guid = 0;        // host order
  int max_work_requests = 16384;
  int max_cq_entries = 1 << 20;
  size_t max_qps = 1 << 20;  // beyond these, ENOMEM
  uint32_t max_inline_bytes = 256;
  bool dmabuf = true;
  // The ECE options that the HCA knows, of vendor ece_vendor. Unset: it knows no ECE.
  std::optional<uint32_t> ece_options;
  uint32_t ece_vendor = 0x15b3;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  std::string sysfs_path;        // ibv_device::ibdev_path
  std::string data_direct_path;  // of mlx5's Data Direct function, without /sys; "": there is none

  // One active port. The LID, or the last byte of the GID ::ffff:10.0.0.n, is `number`.
  static HcaConfig infiniband(const std::string& name, uint16_t number);
  static HcaConfig roce(const std::string& name, uint8_t number);
};

// A call that fail_call() can make fail. The steps of modify_qp are named by the state they lead
// to.
enum class Call : uint8_t {
  kGetDeviceList,
  kOpenDevice,
  kQueryDevice,
  kQueryPort,
  kAllocPd,
  kRegMr,  // and reg_mr_iova2
  kRegDmabufMr,
  kRegDataDirectMr,
  kCreateCq,
  kCreateQp,
  kModifyToReset,
  kModifyToInit,
  kModifyToRtr,
  kModifyToRts,
  kModifyToError,
  kPostSend,
  kPostRecv,
  kPollCq,  // returns -1
  kSetEce,
  kQueryEce,
  kDestroyQp,
  kDestroyCq,
};
inline constexpr int kCalls = static_cast<int>(Call::kDestroyCq) + 1;

// A send work request as it was posted.
struct Posted {
  uint64_t wr_id;
  uint32_t qp_num;
  ibv_wr_opcode opcode;
  unsigned flags;  // ibv_send_flags
  uint64_t source;
  uint32_t bytes;
  uint32_t lkey;
  uint64_t remote_address;
  uint32_t rkey;
  uint32_t imm_data;  // network order, as in ibv_send_wr
  size_t doorbell;    // number of the post_send call, from 0

  bool is_signalled() const { return (flags & IBV_SEND_SIGNALED) != 0; }
  bool is_inline() const { return (flags & IBV_SEND_INLINE) != 0; }
};

// A send work request that has not run yet.
struct Transfer {
  ibv_send_wr wr;
  uint32_t qp_num;
  std::vector<ibv_sge> source;
  std::vector<std::byte> inline_data;

  size_t bytes() const {
    size_t sum = 0;
    for (const ibv_sge& sge : source) sum += sge.length;
    return sum;
  }
};

struct LiveObjects {
  int contexts = 0;
  int pds = 0;
  int mrs = 0;
  int cqs = 0;
  int qps = 0;
  bool operator==(const LiveObjects&) const = default;
};

struct Hca;
struct Context;
struct Mr;
struct Cq;
struct Qp;

// One at a time in a process. Every object that was made through api() must be destroyed first.
// Thread-safe.
class FakeVerbs {
 public:
  FakeVerbs();
  ~FakeVerbs();
  FakeVerbs(const FakeVerbs&) = delete;
  FakeVerbs& operator=(const FakeVerbs&) = delete;

  std::shared_ptr<const gdr::verbs::Api> api() const { return api_; }
  // For a test that takes functions away, as an older library would.
  gdr::verbs::Api& mutable_api() { return *api_; }

  // Returns what ibv_get_device_list lists; it lives as long as the fabric.
  ibv_device* add_hca(const HcaConfig& config);
  // Changes a port at run time, as a subnet manager or an administrator would. Ports count from 1.
  Port& port(const std::string& hca, int port);
  // Changes an HCA at run time: what it has beyond a new limit stays.
  HcaConfig& config(const std::string& hca);

  // Makes the call fail with that errno, `times` times, after `skip` calls that succeed.
  void fail_call(Call call, int err, int skip = 0, int times = 1);
  // How many failures of that call are still to come.
  int failures_left(Call call) const;
  // Completes a transfer with that status instead of running it, after `skip` that run. Its QP then
  // is in error. arrives: it runs all the same, and only its acknowledgement is lost.
  void fail_transfer(ibv_wc_status status, int skip = 0, bool arrives = false);
  // Completes each transfer with that status for which `which` returns true, instead of running it.
  // Null ends that.
  void fail_each(ibv_wc_status status, std::function<bool(const Transfer&)> which);
  // Moves a QP to error, as a fatal fault would: everything posted on it is flushed.
  void break_qp(uint32_t qp_num);
  // Receives that are posted on a QP in ERROR are not flushed from here on, as rxe does it.
  void keep_late_receives();
  // Puts a completion of a receive into the QP's CQ, as if a write with immediate of that many
  // bytes had arrived. It consumes a posted receive.
  void inject_arrival(uint32_t qp_num, uint32_t imm_data, uint32_t bytes);
  // Takes the QP's completions that have not been polled away, as an HCA that dies does, and
  // returns how many there were.
  int drop_completions(uint32_t qp_num);
  // Raises an asynchronous event. The object is a CQ, a QP or, for events of ports, a port number.
  void raise_event(const std::string& hca, ibv_event_type type, void* object, int port = 0);

  // Called with the name of each call that destroys an object, "destroy_qp" for example, before the
  // object is destroyed.
  void on_destroy(std::function<void(const char*)> callback);

  // The QP of that number, as raise_event() names it; null where there is none.
  void* find(uint32_t qp_num) const;

  // Keeps transfers from running until deliver() or release().
  void hold();
  // Runs up to `count` held transfers, the oldest first, and returns how many ran. One that waits
  // for a receive of the peer (RNR) keeps those behind it on its QP waiting, not those of other
  // QPs.
  int deliver(int count = 1);
  // The same for one QP, so that a test can let one QP overtake another.
  int deliver_on(uint32_t qp_num, int count = 1);
  // Runs what is held and ends hold().
  void release();
  size_t held() const;

  // What was posted since the start or the last forget_posted().
  std::vector<Posted> posted() const { return copy_of(posted_); }
  void forget_posted();
  // post_send calls, since the same moment.
  size_t doorbells() const { return copy_of(doorbells_); }
  size_t polls(const ibv_cq* cq) const;        // poll_cq calls, since the queue was created
  int posted_receives(uint32_t qp_num) const;  // that no arrival has consumed yet
  // What modify_qp set, over all steps.
  ibv_qp_attr attributes(uint32_t qp_num) const;
  // What create_qp was asked for, by QP number in the order of creation.
  std::map<uint32_t, ibv_qp_cap> queue_pairs() const;
  std::vector<int> cq_entries() const;  // of the CQs that live
  // The ECE options in effect: those of the HCA, or those that set_ece gave, as far as the HCA
  // knows them, once a change of state has taken them over.
  uint32_t ece_options(uint32_t qp_num) const;
  // The states in which set_ece was called, in order.
  std::vector<ibv_qp_state> ece_set_in(uint32_t qp_num) const;
  // Registrations with Data Direct since the start.
  int data_direct_mrs() const { return copy_of(data_direct_mrs_); }
  LiveObjects live() const { return copy_of(live_); }

 private:
  friend struct Entry;
  friend struct HotEntry;

  template <class Value>
  Value copy_of(const Value& value) const {
    std::lock_guard lock(mutex_);
    return value;
  }
  bool fails(Call call);
  int modify(Qp& qp, const ibv_qp_attr& attr, int mask);
  int post(Qp& qp, const ibv_send_wr& wr, size_t doorbell);
  void run_ready();
  int run(int count, const uint32_t* qp_num);
  bool run_transfer(Transfer& transfer);
  std::optional<ibv_wc_status> arrive(const Transfer& transfer, Qp& qp);
  ibv_wc_status move_data(const Transfer& transfer, Qp& qp, Qp& peer);
  void complete(const Transfer& transfer, Qp& qp, ibv_wc_status status);
  void complete_receive(Qp& qp, ibv_wc_status status, uint32_t imm_data, uint32_t bytes);
  void enter_error(Qp& qp);
  void reset(Qp& qp);
  bool is_port_active(const Qp& qp) const;
  const Mr* find_local(const ibv_pd* pd, uint32_t lkey, uint64_t address, size_t bytes) const;
  const Mr* find_remote(const ibv_pd* pd, uint32_t rkey, uint64_t address, size_t bytes) const;
  Qp* find_qp(uint32_t qp_num) const;
  ibv_mr* make_mr(ibv_pd* pd, Call call, void* address, size_t bytes, uint64_t iova, int access);

  struct Failure {
    int err = 0;
    int skip = 0;
    int times = 0;
  };

  mutable std::recursive_mutex mutex_;  // guards all that follows
  std::shared_ptr<gdr::verbs::Api> api_;
  std::vector<std::unique_ptr<Hca>> hcas_;
  std::vector<Context*> contexts_;
  std::map<uint32_t, Mr*> by_lkey_;
  std::map<uint32_t, Mr*> by_rkey_;
  std::map<uint32_t, Qp*> qps_;
  std::vector<Cq*> cqs_;
  LiveObjects live_;
  uint32_t next_key_ = 0x1000;
  uint32_t next_qp_num_ = 0x100;
  std::array<Failure, kCalls> failures_{};
  std::function<void(const char*)> on_destroy_ = [](const char*) {};
  ibv_wc_status transfer_failure_ = IBV_WC_SUCCESS;
  int transfer_failure_skip_ = 0;
  bool transfer_failure_arrives_ = false;
  ibv_wc_status each_failure_ = IBV_WC_SUCCESS;
  std::function<bool(const Transfer&)> fails_;
  bool keeps_late_receives_ = false;
  bool held_ = false;
  std::deque<Transfer> in_flight_;
  std::vector<Posted> posted_;
  size_t doorbells_ = 0;
  int data_direct_mrs_ = 0;
};

}  // namespace fake_verbs
