// Passes messages through a plugin's network table over the software HCA, both ends in one thread,
// so that a run repeats exactly. The sender is on the first device and the receiver on the second
// one: the software HCA counts what each end asks of its own (`counters_file`), which the script
// `wire_cost` reads. `instructions` runs this program under callgrind, which collects in a function
// of a given name: each entry of the table is called in one of its own.
#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "tests/bench/net_pair.h"
#include "tests/fakes/cuda/fake_driver.h"

namespace {
using gdr::abi::ncclResult_t;
using gdr::bench::die;
using gdr::bench::require;
using gdr::tools::Net;
using Call = std::function<ncclResult_t()>;

struct Calls {
  unsigned long isend = 0, irecv = 0, test_send = 0, test_recv = 0;
};
Calls g_calls;
}  // namespace

extern "C" {
[[gnu::noinline]] ncclResult_t sender_isend(const Call& call) {
  ++g_calls.isend;
  return call();
}
[[gnu::noinline]] ncclResult_t sender_test(const Call& call) {
  ++g_calls.test_send;
  return call();
}
[[gnu::noinline]] ncclResult_t receiver_irecv(const Call& call) {
  ++g_calls.irecv;
  return call();
}
[[gnu::noinline]] ncclResult_t receiver_test(const Call& call) {
  ++g_calls.test_recv;
  return call();
}
// Before it callgrind forgets what it has collected.
[[gnu::noinline]] void warmed_up() { g_calls = {}; }
}

namespace {
constexpr size_t kWarmUp = 64;  // receives
constexpr size_t kPage = size_t{64} << 10;
constexpr int kMostGrouped = 8;

struct Settings {
  const char* plugin;
  const char* table;
  size_t bytes;     // of each message
  int grouped;      // messages of one receive
  size_t receives;  // that are passed in all
  size_t ahead;     // receives and sends that are outstanding
  bool gpu;         // memory of the fake GPU, which is flushed
};

// The buffers of one end: one for each message that may be outstanding.
struct End {
  Net* net = nullptr;
  void* comm = nullptr;
  void* mr = nullptr;
  char* data = nullptr;
  size_t stride = 0;
  std::vector<char> host;
  std::unique_ptr<fake_cuda::DeviceBuffer> gpu;

  char* message(size_t number, size_t outstanding) const {
    return data + number % outstanding * stride;
  }
};

void allocate(End& end, const Settings& settings) {
  end.stride = std::max<size_t>((settings.bytes + 63) / 64 * 64, 64);
  size_t bytes = end.stride * settings.ahead * settings.grouped;
  bytes = (bytes / kPage + 2) * kPage;
  if (!settings.gpu) {
    end.host.resize(bytes);
    end.data = end.host.data();
    end.mr = gdr::bench::register_host(*end.net, end.comm, end.data, bytes);
    return;
  }
  const fake_cuda::Driver& cuda = fake_cuda::Driver::load();
  if (cuda.api.init(0) != gdr::cuda::kSuccess) die("cuInit failed");
  end.gpu = std::make_unique<fake_cuda::DeviceBuffer>(cuda, 0, bytes);
  end.data = end.gpu->get();
  const gdr::Result<gdr::UniqueFd> fd = gdr::cuda::export_dmabuf(end.data, bytes);
  if (!fd) die(fd.error().text);
  require(
      end.net->reg_mr_dmabuf(end.comm, end.data, bytes, gdr::abi::kPtrCuda, 0, fd->get(), &end.mr),
      "regMrDmaBuf");
}

// Messages go in order. Those of one receive have the tags 0, 1 and so on.
class Exchange {
 public:
  Exchange(End& sender, End& receiver, const Settings& settings)
      : sender_(sender),
        receiver_(receiver),
        settings_(settings),
        grouped_(static_cast<size_t>(settings.grouped)),
        receives_(settings.ahead),
        sends_(settings.ahead * grouped_) {}

  void run() {
    while (received_ < settings_.receives || sent_ < settings_.receives * grouped_) {
      if (received_ == kWarmUp && posted_ == kWarmUp) warmed_up();
      while (posted_ < settings_.receives && posted_ - received_ < settings_.ahead && receive()) {
      }
      while (started_ < settings_.receives * grouped_ && started_ - sent_ < sends_.size() &&
             send()) {
      }
      while (sent_ < started_ && test(sender_test, sends_[sent_ % sends_.size()])) ++sent_;
      while (received_ < posted_ && test(receiver_test, receives_[received_ % receives_.size()])) {
        flush();
        ++received_;
      }
    }
  }

 private:
  bool receive() {
    void *data[kMostGrouped], *handles[kMostGrouped], *phandles[kMostGrouped] = {};
    size_t sizes[kMostGrouped];
    int tags[kMostGrouped];
    for (size_t i = 0; i < grouped_; ++i) {
      data[i] = receiver_.message(posted_ * grouped_ + i, sends_.size());
      handles[i] = receiver_.mr;
      sizes[i] = settings_.bytes;
      tags[i] = static_cast<int>(i);
    }
    void* request = nullptr;
    const auto irecv = [&] {
      return receiver_.net->irecv(receiver_.comm, settings_.grouped, data, sizes, tags, handles,
                                  phandles, &request);
    };
    require(receiver_irecv(irecv), "irecv");
    if (request == nullptr) return false;
    receives_[posted_++ % receives_.size()] = request;
    return true;
  }

  bool send() {
    void* request = nullptr;
    char* data = sender_.message(started_, sends_.size());
    if (!settings_.gpu && settings_.bytes >= sizeof(started_)) {
      std::memcpy(data, &started_, sizeof(started_));
    }
    const auto isend = [&] {
      return sender_.net->isend(sender_.comm, data, settings_.bytes,
                                static_cast<int>(started_ % grouped_), sender_.mr, nullptr,
                                &request);
    };
    require(sender_isend(isend), "isend");
    if (request == nullptr) return false;
    sends_[started_++ % sends_.size()] = request;
    return true;
  }

  bool test(ncclResult_t (*counted)(const Call&), void* request) {
    int done = 0, sizes[kMostGrouped] = {};
    require(counted([&] { return sender_.net->test(request, &done, sizes); }), "test");
    return done != 0;
  }

  // Of the oldest receive, as NCCL does for GPU memory.
  void flush() {
    check();
    if (!settings_.gpu) return;
    void *data[kMostGrouped], *handles[kMostGrouped];
    int sizes[kMostGrouped];
    for (size_t i = 0; i < grouped_; ++i) {
      data[i] = receiver_.message(received_ * grouped_ + i, sends_.size());
      handles[i] = receiver_.mr;
      sizes[i] = static_cast<int>(settings_.bytes);
    }
    void* request = nullptr;
    require(
        receiver_.net->iflush(receiver_.comm, settings_.grouped, data, sizes, handles, &request),
        "iflush");
    while (request != nullptr && !test(receiver_test, request)) {
    }
  }

  void check() const {
    if (settings_.gpu || settings_.bytes < sizeof(size_t)) return;
    for (size_t i = 0; i < grouped_; ++i) {
      const size_t number = received_ * grouped_ + i;
      if (std::memcmp(receiver_.message(number, sends_.size()), &number, sizeof(number)) != 0) {
        die("received other bytes");
      }
    }
  }

  End& sender_;
  End& receiver_;
  const Settings& settings_;
  const size_t grouped_;
  std::vector<void*> receives_;
  std::vector<void*> sends_;
  size_t posted_ = 0;    // receives
  size_t received_ = 0;  // receives
  size_t started_ = 0;   // messages
  size_t sent_ = 0;      // messages
};

Settings read(int argc, char** argv) {
  if (argc != 8) {
    die("usage: messages_driver PLUGIN_FILE newest|TABLE_VERSION BYTES GROUPED RECEIVES AHEAD "
        "host|gpu");
  }
  Settings settings = {};
  settings.plugin = argv[1];
  settings.table = argv[2];
  settings.bytes = std::strtoull(argv[3], nullptr, 10);
  settings.grouped = std::atoi(argv[4]);
  settings.receives = std::strtoull(argv[5], nullptr, 10);
  settings.ahead = std::strtoull(argv[6], nullptr, 10);
  settings.gpu = std::strcmp(argv[7], "gpu") == 0;
  if (settings.grouped < 1 || settings.grouped > kMostGrouped) die("GROUPED is from 1 to 8");
  if (settings.ahead < 1 || settings.bytes > INT_MAX) die("AHEAD or BYTES out of range");
  return settings;
}
}  // namespace

int main(int argc, char** argv) {
  const Settings settings = read(argc, argv);
  Net& net = gdr::bench::load(settings.plugin, settings.table);
  void* context = gdr::bench::init(net, &gdr::bench::log_warnings, 2);
  const gdr::bench::Pair pair = gdr::bench::connect(net, context, 0, 1);
  End sender, receiver;
  sender.net = receiver.net = &net;
  sender.comm = pair.sender;
  receiver.comm = pair.receiver;
  allocate(sender, settings);
  allocate(receiver, settings);
  Exchange(sender, receiver, settings).run();
  for (End* end : {&sender, &receiver}) require(net.dereg_mr(end->comm, end->mr), "deregMr");
  gdr::bench::disconnect(net, pair);
  require(net.finalize(context), "finalize");
  std::printf("{\"isend\": %lu, \"irecv\": %lu, \"test_send\": %lu, \"test_recv\": %lu}\n",
              g_calls.isend, g_calls.irecv, g_calls.test_send, g_calls.test_recv);
  return 0;
}
