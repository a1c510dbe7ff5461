// The other process of a test: one endpoint with one buffer. It reads commands as lines from stdin
// and answers each with one line. See remote_process.h.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "tests/unit/softhca/memory.h"

namespace {
bool g_dies_at_signal = false;
}

// In place of the C library's, which wakes a peer that waits for an event.
extern "C" [[gnu::visibility("default")]] ssize_t sendto(int fd, const void* data, size_t bytes,
                                                         int flags, const sockaddr* to,
                                                         socklen_t to_bytes) {
  if (g_dies_at_signal) raise(SIGKILL);
  return syscall(SYS_sendto, fd, data, bytes, flags, to, to_bytes);
}

namespace softhca_test {
namespace {

class Commands {
 public:
  // Returns false for an unknown command.
  bool execute(const std::string& name, std::istream& in, std::ostream& out) {
    if (name == "open") {
      int gpu = -1;
      size_t bytes = 0;
      in >> gpu >> bytes;
      endpoint_ = std::make_unique<Endpoint>();
      memory_ = std::make_unique<Memory>(*endpoint_, gpu, bytes);
      Address address = endpoint_->address();
      out << address.qpn << ' ' << address.lid << ' ' << memory_->address() << ' '
          << memory_->rkey();
    } else if (name == "connect") {
      Address peer;
      in >> peer.qpn >> peer.lid;
      endpoint_->connect(peer);
      out << "ok";
    } else if (name == "fill") {
      memory_->fill(number(in));
      out << "ok";
    } else if (name == "mismatch") {
      out << memory_->mismatch(number(in));
    } else if (name == "reset") {
      out << endpoint_->to_state(IBV_QPS_RESET);
    } else if (name == "post") {
      out << post(in);
    } else if (name == "die") {
      g_dies_at_signal = true;
      out << post(in);
    } else if (name == "flood") {
      flood(in, out);
    } else {
      return false;
    }
    return true;
  }

 private:
  // Answers, and then writes one byte value after the other into all of the peer's memory, until
  // the QP fails; with "immediate", always the same bytes, and an immediate with them.
  void flood(std::istream& in, std::ostream& out) {
    Request request(IBV_WR_RDMA_WRITE, memory_->sge());
    std::string kind;
    in >> request.wr.wr.rdma.remote_addr >> request.wr.wr.rdma.rkey >> kind;
    if (kind == "immediate") request.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    std::cout << "ok" << std::endl;
    ibv_wc_status status = IBV_WC_SUCCESS;
    for (uint8_t seed = 0; status == IBV_WC_SUCCESS; ++seed) {
      if (kind.empty()) memory_->fill(seed);
      for (int i = 0; i < 2; ++i) request.post(endpoint_->qp());
      for (int i = 0; i < 2; ++i) status = std::max(status, endpoint_->wait().status);
    }
    out << status;
  }

  // Posts an empty send, or a write to memory that the peer has not registered.
  int post(std::istream& in) {
    std::string what;
    in >> what;
    if (what == "send") return Request(IBV_WR_SEND, {}).post(endpoint_->qp());
    return Request(IBV_WR_RDMA_WRITE, memory_->sge(), 0, 1).post(endpoint_->qp());
  }

  static uint8_t number(std::istream& in) {
    unsigned value = 0;
    in >> value;
    return static_cast<uint8_t>(value);
  }

  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace
}  // namespace softhca_test

int main() {
  softhca_test::Commands commands;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    std::ostringstream out;
    std::string name;
    in >> name;
    if (!commands.execute(name, in, out)) return 2;
    std::cout << out.str() << std::endl;
  }
  return testing::Test::HasFailure() ? 1 : 0;
}
