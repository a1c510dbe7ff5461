#include "tools/ranks/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "tools/ranks/stall_guard.h"

namespace gdr::tools {
namespace {
constexpr uint64_t kYieldEvery = 1;  // connecting is not measured; leave the cores to other ranks
// For how long a plugin may say itself what the end of another rank means.
constexpr std::chrono::seconds kPluginsTime{3};
using Handle = std::array<char, abi::kHandleMaxBytes>;

// Sets up all links of a rank together. It must alternate between them: a rank that waited in
// connect before its accept would deadlock with a peer that does the same.
class Connector {
 public:
  Connector(Rank& rank, Net& net, void* context, int dev, const std::vector<LinkSpec>& specs)
      : rank_(rank),
        net_(net),
        context_(context),
        dev_(dev),
        specs_(specs),
        handles_(specs.size()) {
    for (size_t i = 0; i < specs.size(); ++i) {
      listeners_.push_back(own_listen(net));
      links_.send.push_back(own_send(net));
      links_.recv.push_back(own_recv(net));
    }
  }

  Status listen();
  Status exchange();
  Status connect();
  Links take() { return std::move(links_); }

 private:
  Result<bool> advance(size_t index);
  std::string waiting_for() const;
  bool sends(size_t i) const { return specs_[i].from == rank_.rank(); }
  bool receives(size_t i) const { return specs_[i].to == rank_.rank(); }
  int device_of(size_t i) const { return specs_[i].device < 0 ? dev_ : specs_[i].device; }

  Rank& rank_;
  Net& net_;
  void* context_;
  int dev_;
  const std::vector<LinkSpec>& specs_;
  std::vector<Handle> handles_;
  std::vector<NetComm> listeners_;
  Links links_;
};

Status Connector::listen() {
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (!receives(i)) continue;
    void* comm = nullptr;
    abi::ncclResult_t result = net_.listen(context_, device_of(i), handles_[i].data(), &comm);
    if (result != abi::ncclSuccess) {
      return fail(Code::kSystem,
                  fmt::format("listen on device {}: {}", device_of(i), describe(result)));
    }
    listeners_[i].reset(comm);
  }
  return {};
}

Status Connector::exchange() {
  std::string mine(reinterpret_cast<const char*>(handles_.data()),
                   handles_.size() * sizeof(Handle));
  auto all = rank_.allgather("exchange of handles", mine);
  if (!all) return forward_error(all);
  for (size_t i = 0; i < specs_.size(); ++i) {
    const std::string& theirs = (*all)[specs_[i].to];
    if (theirs.size() != mine.size()) return fail(Code::kInternal, "ranks disagree on the links");
    std::memcpy(handles_[i].data(), theirs.data() + i * sizeof(Handle), sizeof(Handle));
  }
  return {};
}

// Calls connect and accept once. Returns true when this rank has all its ends of the link.
Result<bool> Connector::advance(size_t i) {
  if (sends(i) && !links_.send[i]) {
    void* comm = nullptr;
    abi::ncclResult_t result = net_.connect(context_, device_of(i), handles_[i].data(), &comm);
    if (result != abi::ncclSuccess) {
      return fail(Code::kRemote, fmt::format("connect to rank {} on device {}: {}", specs_[i].to,
                                             device_of(i), describe(result)));
    }
    if (comm != nullptr) links_.send[i].reset(comm);
  }
  if (receives(i) && !links_.recv[i]) {
    void* comm = nullptr;
    abi::ncclResult_t result = net_.accept(listeners_[i].get(), &comm);
    if (result != abi::ncclSuccess) {
      return fail(Code::kRemote, fmt::format("accept from rank {} on device {}: {}", specs_[i].from,
                                             device_of(i), describe(result)));
    }
    if (comm != nullptr) {
      links_.recv[i].reset(comm);
      listeners_[i].reset();
    }
  }
  return (!sends(i) || links_.send[i]) && (!receives(i) || links_.recv[i]);
}

std::string Connector::waiting_for() const {
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (sends(i) && !links_.send[i]) return fmt::format("connect to rank {}", specs_[i].to);
    if (receives(i) && !links_.recv[i]) return fmt::format("accept from rank {}", specs_[i].from);
  }
  return "nothing";
}

Status Connector::connect() {
  StallGuard guard(rank_, kYieldEvery);
  Clock::time_point lost_at = Clock::time_point::max();
  for (size_t missing = 1; missing > 0;) {
    rank_.board().set_state(fmt::format("waiting in {}", waiting_for()));
    missing = 0;
    for (size_t i = 0; i < specs_.size(); ++i) {
      auto complete = advance(i);
      if (!complete) return forward_error(complete);
      if (!*complete) ++missing;
    }
    if (rank_.has_lost_a_rank()) lost_at = std::min(lost_at, Clock::now());
    if (Clock::now() - kPluginsTime >= lost_at) return rank_.barrier(waiting_for());
    if (missing > 0 && !guard.keep_waiting()) {
      return fail(Code::kRemote, fmt::format("gave up waiting in {}", waiting_for()));
    }
  }
  return {};
}
}  // namespace

Result<Links> connect_links(Rank& rank, Net& net, void* context, int dev,
                            const std::vector<LinkSpec>& specs) {
  Connector connector(rank, net, context, dev, specs);
  Status done = connector.listen();
  if (done) done = connector.exchange();
  if (done) done = connector.connect();
  if (!done) return forward_error(done);
  if (Status met = rank.barrier("all connected"); !met) return forward_error(met);
  return connector.take();
}

}  // namespace gdr::tools
