// Drives a plugin's network table with both ends in one thread, one message after the other, so
// that callgrind can count the instructions of each side of a message. The script `instructions`
// runs this program.
//
// Each table entry is called in a function of its own that is never inlined; callgrind collects in
// the function of a given name. Code outside of these functions (connecting, warming up) is not
// counted.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/bench/net_pair.h"

namespace {
using gdr::abi::ncclResult_t;
using gdr::bench::die;
using gdr::bench::require;
using gdr::tools::Net;

constexpr size_t kMessageBytes = 8;
constexpr int kTag = 7;
constexpr uint64_t kWarmUpMessages = 64;

struct End {
  Net* net = nullptr;
  void* comm = nullptr;
  void* mr = nullptr;
  void* request = nullptr;
  alignas(4096) char buffer[4096] = {};
};

struct Polls {
  uint64_t isend = 0;
  uint64_t irecv = 0;
  uint64_t test_send = 0;
  uint64_t test_recv = 0;
};

struct TableCalls {
  static ncclResult_t isend(End* end) {
    return end->net->isend(end->comm, end->buffer, kMessageBytes, kTag, end->mr, nullptr,
                           &end->request);
  }
  static ncclResult_t irecv(End* end) {
    void* data = end->buffer;
    size_t size = kMessageBytes;
    int tag = kTag;
    void* phandle = nullptr;
    return end->net->irecv(end->comm, 1, &data, &size, &tag, &end->mr, &phandle, &end->request);
  }
  static ncclResult_t test_send(End* end, int* done) { return test(end, done); }
  static ncclResult_t test_recv(End* end, int* done) { return test(end, done); }

 private:
  static ncclResult_t test(End* end, int* done) {
    int size = 0;
    return end->net->test(end->request, done, &size);
  }
};
}  // namespace

extern "C" {
[[gnu::noinline]] ncclResult_t sender_isend(End* end) { return TableCalls::isend(end); }
[[gnu::noinline]] ncclResult_t sender_test(End* end, int* done) {
  return TableCalls::test_send(end, done);
}
[[gnu::noinline]] ncclResult_t receiver_irecv(End* end) { return TableCalls::irecv(end); }
[[gnu::noinline]] ncclResult_t receiver_test(End* end, int* done) {
  return TableCalls::test_recv(end, done);
}
}

namespace {
struct CountedCalls {
  static ncclResult_t isend(End* end) { return sender_isend(end); }
  static ncclResult_t irecv(End* end) { return receiver_irecv(end); }
  static ncclResult_t test_send(End* end, int* done) { return sender_test(end, done); }
  static ncclResult_t test_recv(End* end, int* done) { return receiver_test(end, done); }
};

template <class Calls>
void exchange(End& sender, End& receiver, uint64_t number, Polls* polls) {
  std::memcpy(sender.buffer, &number, sizeof(number));
  sender.request = receiver.request = nullptr;
  for (; receiver.request == nullptr; ++polls->irecv) require(Calls::irecv(&receiver), "irecv");
  for (; sender.request == nullptr; ++polls->isend) require(Calls::isend(&sender), "isend");
  int done = 0;
  for (; done == 0; ++polls->test_send) require(Calls::test_send(&sender, &done), "test of a send");
  done = 0;
  for (; done == 0; ++polls->test_recv)
    require(Calls::test_recv(&receiver, &done), "test of a receive");
  if (std::memcmp(receiver.buffer, &number, sizeof(number)) != 0) die("received other bytes");
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) die("usage: instructions_driver PLUGIN_FILE MESSAGES newest|TABLE_VERSION");
  Net& net = gdr::bench::load(argv[1], argv[3]);
  const uint64_t messages = std::strtoull(argv[2], nullptr, 10);
  void* context = gdr::bench::init(net, &gdr::bench::log_warnings, 1);
  auto sender = std::make_unique<End>();
  auto receiver = std::make_unique<End>();
  const gdr::bench::Pair pair = gdr::bench::connect(net, context, 0, 0);
  sender->comm = pair.sender;
  receiver->comm = pair.receiver;
  for (End* end : {sender.get(), receiver.get()}) {
    end->net = &net;
    end->mr = gdr::bench::register_host(net, end->comm, end->buffer, sizeof(end->buffer));
  }
  Polls warm;
  Polls polls;
  for (uint64_t i = 0; i < kWarmUpMessages; ++i) {
    exchange<TableCalls>(*sender, *receiver, i, &warm);
  }
  for (uint64_t i = 0; i < messages; ++i) {
    exchange<CountedCalls>(*sender, *receiver, ~i, &polls);
  }
  for (End* end : {sender.get(), receiver.get()}) {
    require(net.dereg_mr(end->comm, end->mr), "deregMr");
  }
  gdr::bench::disconnect(net, pair);
  require(net.finalize(context), "finalize");
  std::printf(
      "{\"name\": \"%s\", \"table\": %d, \"messages\": %llu, \"isend\": %llu, "
      "\"irecv\": %llu, \"test_send\": %llu, \"test_recv\": %llu}\n",
      net.name(), net.version(), static_cast<unsigned long long>(messages),
      static_cast<unsigned long long>(polls.isend), static_cast<unsigned long long>(polls.irecv),
      static_cast<unsigned long long>(polls.test_send),
      static_cast<unsigned long long>(polls.test_recv));
  return 0;
}
