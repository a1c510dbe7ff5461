#include <sched.h>

#include <functional>
#include <vector>

#include "tools/common/pattern.h"
#include "tools/conformance/exchange.h"
#include "tools/net/deleters.h"
#include "tools/net/plugin_loader.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {
namespace {
constexpr size_t kMessageBytes = 60000;

class LoneMessage {
 public:
  LoneMessage(Net& net, void* context, int dev, uint64_t number, double timeout_seconds)
      : net_(net),
        context_(context),
        dev_(dev),
        pattern_(number, 63, 0),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(timeout_seconds))) {}

  std::string run() {
    connect();
    if (error_.empty()) transfer();
    close();
    return error_;
  }

 private:
  // Notes the first error; returns false after any.
  bool good(const char* entry, abi::ncclResult_t result) {
    if (result != abi::ncclSuccess && error_.empty()) {
      error_ = std::string(entry) + " returned " + describe(result);
    }
    return error_.empty();
  }
  // Calls the step until it is done; it notes its errors itself.
  void poll(const char* what, const std::function<bool()>& step) {
    while (error_.empty() && !step()) {
      sched_yield();
      if (Clock::now() > end_) error_ = std::string("gave up waiting for ") + what;
    }
  }

  void connect() {
    char handle[abi::kHandleMaxBytes] = {};
    if (!good("listen", net_.listen(context_, dev_, handle, &listener_))) return;
    poll("a connection", [&] {
      if (send_ == nullptr) good("connect", net_.connect(context_, dev_, handle, &send_));
      if (recv_ == nullptr) good("accept", net_.accept(listener_, &recv_));
      return send_ != nullptr && recv_ != nullptr;
    });
  }

  void transfer() {
    std::vector<char> from(kMessageBytes);
    std::vector<char> to(kMessageBytes);
    pattern_.fill(from.data(), kMessageBytes);
    void* from_handle = nullptr;
    void* to_handle = nullptr;
    good("regMr", net_.reg_mr(send_, from.data(), kMessageBytes, abi::kPtrHost, &from_handle));
    good("regMr", net_.reg_mr(recv_, to.data(), kMessageBytes, abi::kPtrHost, &to_handle));
    void* receive = nullptr;
    void* send = nullptr;
    poll("irecv and isend", [&] {
      void* data = to.data();
      size_t bytes = kMessageBytes;
      int tag = 0;
      void* phandle = this;
      if (receive == nullptr) {
        good("irecv", net_.irecv(recv_, 1, &data, &bytes, &tag, &to_handle, &phandle, &receive));
      }
      if (send == nullptr) {
        good("isend", net_.isend(send_, from.data(), kMessageBytes, 0, from_handle, this, &send));
      }
      return receive != nullptr && send != nullptr;
    });
    if (!error_.empty()) return;
    test("a send", send);
    test("a receive", receive);
    if (error_.empty() && pattern_.first_mismatch(to.data(), kMessageBytes) != kMessageBytes) {
      error_ = "the data is wrong";
    }
    good("deregMr", net_.dereg_mr(send_, from_handle));
    good("deregMr", net_.dereg_mr(recv_, to_handle));
  }

  void close() {
    if (listener_ != nullptr) good("closeListen", net_.close_listen(listener_));
    if (send_ != nullptr) good("closeSend", net_.close_send(send_));
    if (recv_ != nullptr) good("closeRecv", net_.close_recv(recv_));
  }

  void test(const char* what, void* request) {
    poll(what, [&] {
      int done = 0;
      return good("test", net_.test(request, &done, nullptr)) && done != 0;
    });
  }

  Net& net_;
  void* context_;
  int dev_;
  Pattern pattern_;
  Clock::time_point end_;
  std::string error_;
  void* listener_ = nullptr;
  void* send_ = nullptr;
  void* recv_ = nullptr;
};

}  // namespace

std::string lone_message(Net& net, void* context, int dev, uint64_t number,
                         double timeout_seconds) {
  return LoneMessage(net, context, dev, number, timeout_seconds).run();
}

}  // namespace gdr::tools
