// A verbs library with a defect, for NCCL_IBVERBS_LIB: the software HCA's, some of whose calls get
// other arguments than the program's. VERBS_MUTANT names the defect; each change is one line on
// stderr.
//
// Of the change to RTR, or to the state that is named:
//   psn:N       N is added to the packet number that the QP expects
//   epoch:N     the same, only where the QP is connected again
//   mtu:0       one end of a connection has a path MTU of 256, the other one of 4096
//   rd:N        the QP answers N reads and atomics at a time
//   dest:N      N is added to the number of the peer's QP
//   gid:N       N is added to the GID index of one end
//   denies:0    INIT: the QP allows no remote writes
//   timeout:N   RTS: the HCA's time-out of a lost packet; 0 is without end
//
// Of a registration of data (ibv_reg_mr_iova2):
//   half:0      only the first half is registered
//   local:0     without access by the peer
//   other_rkey:0  the rkey is that of another buffer of the PD
//   other_lkey:0  the lkey is that of the same memory in another PD, as that of another rail is
//
// Of a work request: writes with immediate have data, those of whole slots are clear-to-send.
//   rkey:N, remote:N, length:N, imm:N  N is added to that field of a write with immediate
//   slot:N      N is added to the address of a clear-to-send
#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

namespace {

constexpr uint32_t kSlotBytes = 64;

struct Mutant {
  std::string name;
  int number = 0;
};

const Mutant& mutant() {
  static const Mutant parsed = [] {
    const char* text = std::getenv("VERBS_MUTANT");
    if (text == nullptr) return Mutant{};
    const std::string word = text;
    const size_t colon = word.find(':');
    return Mutant{word.substr(0, colon), std::atoi(word.c_str() + colon + 1)};
  }();
  return parsed;
}

void report(const char* of, uint32_t number) {
  std::fprintf(stderr, "verbs_mutant: %s:%d of %s %x\n", mutant().name.c_str(), mutant().number, of,
               number);
}

template <class Function>
Function* softhca(const char* name, const char* version) {
  return reinterpret_cast<Function*>(dlvsym(dlopen("libibverbs.so.1", RTLD_NOW), name, version));
}

// Whether the QP was connected before.
bool is_connected_again(uint32_t number) {
  static std::mutex mutex;
  static std::set<uint32_t> numbers;
  const std::lock_guard lock(mutex);
  return !numbers.insert(number).second;
}

// These return whether they have changed something.
template <class Field>
bool add(Field& field) {
  field = static_cast<Field>(field + mutant().number);
  return true;
}

bool mutate_address(const ibv_qp& qp, ibv_qp_attr* attr) {
  const auto& [name, number] = mutant();
  const bool is_first = qp.qp_num < attr->dest_qp_num;  // of the two QPs of a connection
  if (name == "psn" || (name == "epoch" && is_connected_again(qp.qp_num))) {
    attr->rq_psn = (attr->rq_psn + static_cast<uint32_t>(number)) & 0xffffff;
    return true;
  }
  if (name == "dest") return add(attr->dest_qp_num);
  if (name == "gid" && is_first) return add(attr->ah_attr.grh.sgid_index);
  if (name == "mtu") attr->path_mtu = is_first ? IBV_MTU_256 : IBV_MTU_4096;
  if (name == "rd") attr->max_dest_rd_atomic = static_cast<uint8_t>(number);
  return name == "mtu" || name == "rd";
}

bool mutate_qp(const ibv_qp& qp, ibv_qp_attr* attr) {
  const auto& [name, number] = mutant();
  const ibv_qp_state state = attr->qp_state;
  if (state == IBV_QPS_RTR) return mutate_address(qp, attr);
  const bool denies = state == IBV_QPS_INIT && name == "denies";
  const bool waits = state == IBV_QPS_RTS && name == "timeout";
  if (denies) attr->qp_access_flags &= ~static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE);
  if (waits) attr->timeout = static_cast<uint8_t>(number);
  return denies || waits;
}

bool mutate_request(ibv_send_wr* request, ibv_sge* segment) {
  const std::string& name = mutant().name;
  if (request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    if (name == "rkey") return add(request->wr.rdma.rkey);
    if (name == "remote") return add(request->wr.rdma.remote_addr);
    if (name == "length" && segment->length != 0) return add(segment->length);
    if (name != "imm") return false;
    request->imm_data = htonl(ntohl(request->imm_data) + static_cast<uint32_t>(mutant().number));
    return true;
  }
  const bool is_slot = segment->length != 0 && segment->length % kSlotBytes == 0;
  return name == "slot" && is_slot && add(request->wr.rdma.remote_addr);
}

int (*softhca_post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;

// Posts copies one by one, since the program may post its own again. Their segment is one at most.
int post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) {
  for (ibv_send_wr* request = first; request != nullptr; request = request->next) {
    ibv_send_wr copy = *request;
    ibv_sge segment = request->num_sge > 0 ? request->sg_list[0] : ibv_sge{};
    copy.sg_list = &segment;
    copy.next = nullptr;
    if (mutate_request(&copy, &segment)) report("a request of QP", qp->qp_num);
    ibv_send_wr* refused = nullptr;
    *bad = request;
    if (const int error = softhca_post_send(qp, &copy, &refused); error != 0) return error;
  }
  return 0;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  static const auto modify =
      softhca<int(ibv_qp*, ibv_qp_attr*, int)>("ibv_modify_qp", "IBVERBS_1.1");
  if (qp->context->ops.post_send != post_send) {
    softhca_post_send = qp->context->ops.post_send;
    qp->context->ops.post_send = post_send;
  }
  ibv_qp_attr changed = *attr;
  if ((mask & IBV_QP_STATE) != 0 && mutate_qp(*qp, &changed)) report("QP", qp->qp_num);
  return modify(qp, &changed, mask);
}

EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* memory, size_t bytes, uint64_t iova,
                                unsigned access) {
  static const auto register_mr = softhca<ibv_mr*(ibv_pd*, void*, size_t, uint64_t, unsigned)>(
      "ibv_reg_mr_iova2", "IBVERBS_1.8");
  static char other_buffer[4096];
  const std::string& name = mutant().name;
  if (name == "half") bytes /= 2;
  if (name == "local") access &= ~static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE);
  ibv_mr* mr = register_mr(pd, memory, bytes, iova, access);
  if (mr == nullptr) return mr;
  if (name == "other_rkey") {
    mr->rkey = register_mr(pd, other_buffer, sizeof(other_buffer),
                           reinterpret_cast<uint64_t>(other_buffer), access)
                   ->rkey;
  }
  if (name == "other_lkey") {
    mr->lkey = register_mr(ibv_alloc_pd(pd->context), memory, bytes, iova, access)->lkey;
  }
  if (name == "half" || name == "local" || name.starts_with("other_")) report("MR", mr->handle);
  return mr;
}
