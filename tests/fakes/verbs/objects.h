// The objects that the fake hands out as ibv_context, ibv_mr and so on.
#pragma once

#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

#include "base/unique_fd.h"
#include "tests/fakes/verbs/fake_verbs.h"

namespace fake_verbs {

struct Hca : ibv_device {
  FakeVerbs* fabric = nullptr;
  HcaConfig config;
};

struct Context : ibv_context {
  FakeVerbs* fabric = nullptr;
  Hca* hca = nullptr;
  gdr::UniqueFd events_read;  // a pipe of ibv_async_event
  gdr::UniqueFd events_write;
  int users = 0;  // PDs and CQs
};

struct Pd : ibv_pd {
  int users = 0;  // MRs and QPs
};

struct Mr : ibv_mr {
  uint64_t iova = 0;  // address by which work requests name it
  int access = 0;

  bool covers(uint64_t begin, size_t bytes) const {
    return begin >= iova && begin - iova <= length && length - (begin - iova) >= bytes;
  }
};

struct Completion {
  ibv_wc wc;
  uint32_t retired;  // send work requests whose slots polling it frees
};

struct Cq : ibv_cq {
  std::deque<Completion> completions;
  int users = 0;     // QPs
  size_t polls = 0;  // poll_cq calls
  bool overrun = false;
};

// ibv_qp::state is the library's, which sets it only where ibv_modify_qp succeeds (rdma-core,
// libibverbs/verbs.c): an HCA that moves a QP to ERROR leaves it as it is.
struct Qp : ibv_qp {
  ibv_qp_state now = IBV_QPS_RESET;  // of the HCA's QP
  bool takes_sends = false;          // it has been in RTS since RESET
  ibv_qp_cap cap{};
  ibv_qp_attr attr{};               // as modify_qp set it
  std::deque<uint64_t> receives;    // wr_ids
  uint32_t ece_options = 0;         // in effect
  std::optional<uint32_t> ece_set;  // for the next change of state
  std::vector<ibv_qp_state> ece_set_in;
  uint32_t occupied = 0;              // slots of the send queue
  uint32_t complete_unsignalled = 0;  // of them done, but freed only by a later completion
};

inline FakeVerbs& fabric_of(ibv_context* context) {
  return *static_cast<Context*>(context)->fabric;
}

// What a real library would report as undefined behaviour or an errno that nobody reads.
inline void require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "fake verbs: %s\n", rule);
  std::abort();
}

}  // namespace fake_verbs
