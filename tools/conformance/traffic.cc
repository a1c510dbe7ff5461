#include "tools/conformance/traffic.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace gdr::tools {

namespace {
// What NCCL leaves in *request: null for a receive, and for a send what an earlier one left there
// (src/transport/net.cc).
void* on_entry(const Op& op) {
  bool sends = op.kind == Op::Kind::kSend;
  return sends || op.optional_completion ? kOptionalCompletion : nullptr;
}
}  // namespace

Op single_op(Op::Kind kind, void* comm, void* data, size_t bytes, void* mhandle) {
  Op op;
  op.kind = kind;
  op.comm = comm;
  op.data = {data};
  op.sizes = {bytes};
  op.tags = {0};
  op.mhandles = {mhandle};
  return op;
}

int Traffic::room(const Op& op) const {
  bool sends = op.kind == Op::Kind::kSend;
  return sends ? session_.most_sends() : session_.most_receives();
}

int Traffic::outstanding(void* comm) const {
  return static_cast<int>(std::count_if(ops_.begin(), ops_.end(), [comm](const Op& each) {
    return each.comm == comm && each.posted && !each.over();
  }));
}

bool Traffic::post(Op& op) {
  Net& net = session_.net();
  void* request = on_entry(op);
  bool sends = op.kind == Op::Kind::kSend;
  const char* name = sends ? "isend" : "irecv";
  abi::ncclResult_t result = session_.call(name, [&] {
    // The plugin gets copies, because it may write to these arrays.
    std::vector<void*> phandles = op.phandles;
    if (phandles.empty()) phandles.assign(op.data.size(), &op);
    std::vector<size_t> sizes = op.sizes;
    std::vector<int> tags = op.tags;
    if (sends) {
      return net.isend(op.comm, op.data[0], sizes[0], tags[0], op.mhandles[0], phandles[0],
                       &request);
    }
    return net.irecv(op.comm, static_cast<int>(op.data.size()), op.data.data(), sizes.data(),
                     tags.data(), op.mhandles.data(), phandles.data(), &request);
  });
  if (result == abi::ncclInternalError && outstanding(op.comm) >= room(op)) return false;
  if (result != abi::ncclSuccess) {
    note_error(op, name, result);
    return false;
  }
  if (op.optional_completion) {
    session_.require(request != kOptionalCompletion,
                     "irecv left 0x1 in *request, which NCCL takes for a request");
  }
  // An unchanged *request of a send counts as "try again" here; case C32 requires that it is set.
  if (request == nullptr || request == kOptionalCompletion) return false;
  op.request = request;
  op.posted = true;
  return true;
}

void Traffic::post_all() {
  struct CommState {
    int outstanding = 0;
    bool blocked = false;  // it returned no request in this round
  };
  std::map<void*, CommState> comms;
  for (Op& op : ops_) {
    if (op.over()) continue;
    CommState& comm = comms[op.comm];
    if (op.posted) {
      ++comm.outstanding;
    } else if (!comm.blocked) {
      bool held_back = !style_.overrun && comm.outstanding >= room(op);
      comm.blocked = held_back || !post(op);
      comm.outstanding += comm.blocked ? 0 : 1;
    }
  }
}

void Traffic::test(Op& op) {
  int done = 0;
  op.actual.fill(-1);
  int* sizes = style_.null_sizes ? nullptr : op.actual.data();
  abi::ncclResult_t result =
      session_.call("test", [&] { return session_.net().test(op.request, &done, sizes); });
  if (result != abi::ncclSuccess) {
    note_error(op, "test", result);
  } else {
    op.done = done != 0;
  }
}

void Traffic::note_error(Op& op, const char* entry, abi::ncclResult_t result) {
  op.error = result;
  session_.require(style_.errors_are_ok, "{} returned {}", entry, describe(result));
}

bool Traffic::poll() {
  std::vector<size_t> order(ops_.size());
  std::iota(order.begin(), order.end(), 0);
  bool all = true;
  post_all();
  if (style_.any_order) {
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[session_.random().below(i)]);
    }
  }
  for (size_t i : order) {
    Op& op = ops_[i];
    if (op.posted && !op.over()) test(op);
    all &= op.over();
  }
  return all;
}

void Traffic::run() {
  Deadline deadline(session_, session_.options().timeout_seconds);
  while (!poll()) {
    if (!deadline.wait()) session_.fail("gave up waiting for " + waiting_for());
  }
}

void Traffic::run_for(double seconds) {
  Deadline deadline(session_, seconds);
  while (!poll() && deadline.wait()) {
  }
}

std::string Traffic::waiting_for() const {
  auto open = std::count_if(ops_.begin(), ops_.end(), [](const Op& op) { return !op.over(); });
  auto first = std::find_if(ops_.begin(), ops_.end(), [](const Op& op) { return !op.over(); });
  if (first == ops_.end()) return "nothing";
  return fmt::format(
      "{} of {} requests; the oldest is {} {} of {} buffer(s), the first of {} bytes", open,
      ops_.size(), first->posted ? "a posted" : "an unposted",
      first->kind == Op::Kind::kSend ? "isend" : "irecv", first->data.size(), first->sizes[0]);
}

}  // namespace gdr::tools
