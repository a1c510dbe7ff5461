// Drives a plugin's network table with both ends in one thread, one message after the other, so
// that callgrind can count the instructions of each side of a message. The script `instructions`
// runs this program.
//
// Each table entry is called in a function of its own that is never inlined; callgrind collects in
// the function of a given name. Code outside of these functions (connecting, warming up) is not
// counted.
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tools/net/plugin_loader.h"

namespace {
using gdr::abi::ncclResult_t;
using gdr::abi::ncclSuccess;
using gdr::tools::Net;
using gdr::tools::Plugin;

constexpr size_t kMessageBytes = 8;
constexpr int kTag = 7;
constexpr uint64_t kWarmUpMessages = 64;

struct End {
  Net* net;
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

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "instructions_driver: %s\n", what);
  std::exit(1);
}

void require(ncclResult_t result, const char* entry) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "instructions_driver: %s returned %d\n", entry, result);
  std::exit(1);
}

void log_warnings(gdr::abi::ncclDebugLogLevel level, unsigned long, const char*, int,
                  const char* format, ...) {
  if (level > gdr::abi::kLogWarn) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
}
}  // namespace

namespace {
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

void connect(End& sender, End& receiver, void* context, int dev) {
  Net& net = *sender.net;
  char handle[gdr::abi::kHandleMaxBytes] = {};
  void* listener = nullptr;
  require(net.listen(context, dev, handle, &listener), "listen");
  while (sender.comm == nullptr || receiver.comm == nullptr) {
    if (sender.comm == nullptr) require(net.connect(context, dev, handle, &sender.comm), "connect");
    if (receiver.comm == nullptr) require(net.accept(listener, &receiver.comm), "accept");
  }
  require(net.close_listen(listener), "closeListen");
  for (End* end : {&sender, &receiver}) {
    require(net.reg_mr(end->comm, end->buffer, sizeof(end->buffer), gdr::abi::kPtrHost, &end->mr),
            "regMr");
  }
}

void disconnect(End& sender, End& receiver) {
  Net& net = *sender.net;
  for (End* end : {&sender, &receiver}) require(net.dereg_mr(end->comm, end->mr), "deregMr");
  require(net.close_send(sender.comm), "closeSend");
  require(net.close_recv(receiver.comm), "closeRecv");
}

Plugin load(const char* file, const char* table) {
  auto version = gdr::tools::parse_table(table);
  if (!version) die(version.error().text.c_str());
  auto plugin = Plugin::load(file, *version);
  if (!plugin) die(plugin.error().text.c_str());
  return std::move(*plugin);
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) die("usage: instructions_driver PLUGIN_FILE MESSAGES newest|TABLE_VERSION");
  const Plugin plugin = load(argv[1], argv[3]);
  Net& net = plugin.net();
  const uint64_t messages = std::strtoull(argv[2], nullptr, 10);
  gdr::tools::InitArguments settings;
  settings.logger = &log_warnings;
  void* context = nullptr;
  require(net.init(settings, &context), "init");
  int devices = 0;
  require(net.devices(&devices), "devices");
  if (devices == 0) die("the plugin found no device");
  auto sender = std::make_unique<End>();
  auto receiver = std::make_unique<End>();
  sender->net = receiver->net = &net;
  connect(*sender, *receiver, context, 0);
  Polls warm;
  Polls polls;
  for (uint64_t i = 0; i < kWarmUpMessages; ++i) {
    exchange<TableCalls>(*sender, *receiver, i, &warm);
  }
  for (uint64_t i = 0; i < messages; ++i) {
    exchange<CountedCalls>(*sender, *receiver, ~i, &polls);
  }
  disconnect(*sender, *receiver);
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
