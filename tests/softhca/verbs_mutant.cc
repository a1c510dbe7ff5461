// A verbs library with a defect, for NCCL_IBVERBS_LIB: the software HCA's, whose ibv_modify_qp to
// RTR gets other arguments than the program's. VERBS_MUTANT names the defect; each change is one
// line on stderr.
//
//   psn:N    N is added to the packet number that the QP expects
//   epoch:N  the same, only where the QP is connected again
//   mtu:0    one end of a connection has a path MTU of 256, the other one of 4096
//   rd:N     the QP answers N reads and atomics at a time
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

namespace {

// Whether the QP was connected before.
bool is_connected_again(uint32_t number) {
  static std::mutex mutex;
  static std::set<uint32_t> numbers;
  const std::lock_guard lock(mutex);
  return !numbers.insert(number).second;
}

// Returns whether it has changed something.
bool mutate(const std::string& mutant, const ibv_qp& qp, ibv_qp_attr* attr) {
  const size_t colon = mutant.find(':');
  const std::string name = mutant.substr(0, colon);
  const int number = colon == std::string::npos ? 0 : std::atoi(mutant.c_str() + colon + 1);
  if (name == "psn" || name == "epoch") {
    const bool again = is_connected_again(qp.qp_num);
    if (name == "epoch" && !again) return false;
    attr->rq_psn = (attr->rq_psn + static_cast<uint32_t>(number)) & 0xffffff;
  } else if (name == "mtu") {
    // The numbers of the two QPs of a connection differ.
    attr->path_mtu = qp.qp_num < attr->dest_qp_num ? IBV_MTU_256 : IBV_MTU_4096;
  } else if (name == "rd") {
    attr->max_dest_rd_atomic = static_cast<uint8_t>(number);
  } else {
    std::fprintf(stderr, "verbs_mutant: VERBS_MUTANT=%s: no such mutant\n", mutant.c_str());
    std::abort();
  }
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr,
                                                                    int mask) {
  static const auto modify = reinterpret_cast<int (*)(ibv_qp*, ibv_qp_attr*, int)>(
      dlvsym(dlopen("libibverbs.so.1", RTLD_NOW), "ibv_modify_qp", "IBVERBS_1.1"));
  const char* mutant = std::getenv("VERBS_MUTANT");
  ibv_qp_attr changed = *attr;
  if ((mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RTR && mutant != nullptr &&
      mutate(mutant, *qp, &changed)) {
    std::fprintf(stderr, "verbs_mutant: %s of QP %x\n", mutant, qp->qp_num);
  }
  return modify(qp, &changed, mask);
}
