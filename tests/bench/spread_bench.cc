// Sends messages of one size over a connection of several rails, both ends in one process, and
// prints the bytes per second that arrived. The script rails_throughput runs it over the software
// HCA, whose devices it configures: the first half of them sends, the other half receives.
#include <netinet/in.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "drivers/verbs/verbs_api.h"
#include "transport/data/test_request.h"
#include "transport/transport.h"

namespace {
using gdr::transport::Device;
using gdr::transport::MemoryHandle;
using gdr::transport::MemoryRegion;
using gdr::transport::RailChoice;
using gdr::transport::ReceiveBuffer;
using gdr::transport::ReceiveComm;
using gdr::transport::Request;
using gdr::transport::SendComm;
using gdr::transport::Transport;
using gdr::transport::TransportOptions;
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "spread_bench: %s\n", what.c_str());
  std::exit(1);
}
template <class T>
T get(gdr::Result<T> result) {
  if (!result) die(result.error().text);
  return std::move(*result);
}

struct Load {
  size_t bytes;
  size_t window;  // messages in flight
  std::chrono::duration<double> warm_up;
  std::chrono::duration<double> time;  // at least so long, and
  size_t messages;                     // at least so many
};

// A buffer of one end, with a place for each message of the window.
template <class Comm>
struct End {
  End(Transport& transport, Comm& its_comm, const Load& its_load)
      : comm(its_comm), load(its_load), buffer(its_load.bytes * its_load.window, 'x') {
    MemoryRegion region{};
    region.address = reinterpret_cast<uintptr_t>(buffer.data());
    region.bytes = buffer.size();
    memory =
        get(transport.registrar().register_memory(comm.connection().registration_scope(), region));
  }
  char* place(size_t message) { return buffer.data() + message % load.window * load.bytes; }

  // Takes the oldest requests that are complete; true if there was one.
  bool finish_oldest() {
    if (requests.empty()) return false;
    int done = 0;
    gdr::Code code;
    if (!gdr::transport::test(requests.front(), &done, nullptr, &code)) {
      die(comm.connection().link().failure().text);
    }
    if (done == 0) return false;
    requests.pop_front();
    return true;
  }

  Comm& comm;
  const Load& load;
  std::vector<char> buffer;
  std::unique_ptr<MemoryHandle> memory;
  std::deque<Request*> requests;
  size_t posted = 0;
};

void receive(End<ReceiveComm>& end) {
  while (end.requests.size() < end.load.window) {
    Request* request = nullptr;
    const ReceiveBuffer buffer{end.place(end.posted), end.load.bytes, 0, end.memory.get()};
    if (!end.comm.irecv(&buffer, 1, &request)) die(end.comm.connection().link().failure().text);
    if (request == nullptr) break;
    end.requests.push_back(request);
    ++end.posted;
  }
  while (end.finish_oldest()) continue;
}

// Returns how many messages were completed.
size_t send(End<SendComm>& end) {
  if (end.requests.size() < end.load.window) {
    Request* request = nullptr;
    if (!end.comm.isend(end.place(end.posted), end.load.bytes, 0, *end.memory, &request)) {
      die(end.comm.connection().link().failure().text);
    }
    if (request != nullptr) end.requests.push_back(request);
    end.posted += request != nullptr ? 1 : 0;
  }
  size_t completed = 0;
  while (end.finish_oldest()) ++completed;
  return completed;
}

// Returns how many messages complete next; those that complete together count together.
size_t next_completions(End<SendComm>& source, End<ReceiveComm>& sink) {
  for (;;) {
    receive(sink);
    const size_t completed = send(source);
    if (completed > 0) return completed;
  }
}

// Both ends in one thread, so that neither waits for the other to be scheduled. Returns bytes per
// second, from one completion to another: a window of fixed length would count up to a message too
// many or too few, which is much where few fit into it.
double run(End<SendComm>& source, End<ReceiveComm>& sink, const Load& load) {
  const Clock::time_point start = Clock::now();
  Clock::time_point begin = start;
  while (begin - start < load.warm_up) {
    next_completions(source, sink);
    begin = Clock::now();
  }
  size_t completed = 0;
  for (;;) {
    completed += next_completions(source, sink);
    const std::chrono::duration<double> time = Clock::now() - begin;
    if (time < load.time || completed < load.messages) continue;
    return static_cast<double>(completed * load.bytes) / time.count();
  }
}

TransportOptions options() {
  TransportOptions options;
  options.interface_name = "lo";
  auto* address = reinterpret_cast<sockaddr_in*>(&options.bind_address);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return options;
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) die("usage: spread_bench RAILS BYTES WINDOW WARM_UP_SECONDS SECONDS MESSAGES");
  const auto rails = std::strtoul(argv[1], nullptr, 10);
  const Load load{std::strtoul(argv[2], nullptr, 10), std::strtoul(argv[3], nullptr, 10),
                  std::chrono::duration<double>(std::strtod(argv[4], nullptr)),
                  std::chrono::duration<double>(std::strtod(argv[5], nullptr)),
                  std::strtoul(argv[6], nullptr, 10)};
  auto api = get(gdr::verbs::Api::load());
  std::vector<Device> devices = get(gdr::transport::discover_devices(api, {})).devices;
  if (devices.size() < 2 * rails)
    die("there are only " + std::to_string(devices.size()) + " devices");
  auto transport = get(Transport::create(std::move(devices), options()));
  RailChoice from;
  RailChoice to;
  for (size_t i = 0; i < rails; ++i) {
    from.active.push_back(i);
    to.active.push_back(transport->devices().size() / 2 + i);
  }
  auto listener = get(transport->listen(to));
  gdr::transport::wire::Handle handle{};
  listener->write_handle(&handle);
  std::unique_ptr<SendComm> sender;
  std::unique_ptr<ReceiveComm> receiver;
  while (sender == nullptr || receiver == nullptr) {
    if (sender == nullptr) sender = get(transport->connect(from, &handle));
    if (receiver == nullptr) receiver = get(listener->accept());
  }
  End<SendComm> source(*transport, *sender, load);
  End<ReceiveComm> sink(*transport, *receiver, load);
  std::printf("%.0f\n", run(source, sink, load));
  std::fflush(stdout);
  std::_Exit(0);  // with requests outstanding
}
