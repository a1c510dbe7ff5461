#include "tools/conformance/traffic.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace gdr::tools {

bool Traffic::post(Op& op) {
  Net& net = session_.net();
  void* request = kOptionalCompletion;
  bool sends = op.kind == Op::Kind::kSend;
  const char* name = sends ? "isend" : "irecv";
  abi::ncclResult_t result = session_.call(name, [&] {
    std::vector<void*> phandles = op.phandles;
    phandles.resize(op.data.size());
    if (sends) {
      return net.isend(op.comm, op.data[0], op.sizes[0], op.tags[0], op.mhandles[0], phandles[0],
                       &request);
    }
    // The plugin gets copies, because it may write to these arrays.
    std::vector<size_t> sizes = op.sizes;
    std::vector<int> tags = op.tags;
    return net.irecv(op.comm, static_cast<int>(op.data.size()), op.data.data(), sizes.data(),
                     tags.data(), op.mhandles.data(), phandles.data(), &request);
  });
  if (result != abi::ncclSuccess) {
    note_error(op, name, result);
    return false;
  }
  // An unchanged *request counts as "try again" here; case C32 requires that it is set.
  if (request == nullptr || request == kOptionalCompletion) return false;
  op.request = request;
  op.posted = true;
  return true;
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
  std::set<void*> blocked;  // comms that returned no request in this round
  bool all = true;
  for (size_t i : order) {
    Op& op = ops_[i];
    if (op.over() || op.posted || blocked.count(op.comm) > 0) continue;
    if (!post(op)) blocked.insert(op.comm);
  }
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
