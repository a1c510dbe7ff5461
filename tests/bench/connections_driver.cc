// Opens many connections through a plugin's network table, both ends in this process, and prints
// what they cost: memory, time of the set-up, descriptors, polling while nothing arrives, and the
// tear-down. The script `connections` runs this program.
//
// The first connection is opened and used before anything is counted, so that what a process needs
// once is not counted for each connection. It stays open until the end.
#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/net_pair.h"

namespace {
using Clock = std::chrono::steady_clock;
using gdr::bench::die;
using gdr::bench::require;
using gdr::tools::Net;

constexpr size_t kMessageBytes = 8;
constexpr int kDevice = 0;
constexpr int kTag = 7;

struct End {
  void* comm = nullptr;
  void* mr = nullptr;
  void* request = nullptr;
};

struct Buffers {
  alignas(4096) char sent[4096] = {};
  alignas(4096) char received[4096] = {};
};

struct Link {
  End sender;
  End receiver;
};

int open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir("/proc/self/fd"), &closedir);
  if (entries == nullptr) die("cannot read /proc/self/fd");
  int count = -1;  // without opendir's own
  while (const dirent* entry = readdir(entries.get())) count += entry->d_name[0] != '.' ? 1 : 0;
  return count;
}

// Resident, in KiB: that of /proc/self/smaps_rollup, in proportion to who shares it.
double memory_in_use() {
  std::ifstream file("/proc/self/smaps_rollup");
  double resident = 0;
  for (std::string line; std::getline(file, line);) {
    (void)std::sscanf(line.c_str(), "Pss: %lf", &resident);
  }
  if (resident == 0) die("/proc/self/smaps_rollup has no line \"Pss\"");
  return resident;
}

class Bench {
 public:
  explicit Bench(Net& net)
      : net_(net), context_(gdr::bench::init(net, &gdr::bench::log_warnings, 1)) {}
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() { require(net_.finalize(context_), "finalize"); }

  Link connect() {
    const gdr::bench::Pair pair = gdr::bench::connect(net_, context_, kDevice, kDevice);
    return {{.comm = pair.sender}, {.comm = pair.receiver}};
  }

  void register_memory(Link& link) {
    add_memory(link.sender, buffers_->sent);
    add_memory(link.receiver, buffers_->received);
  }

  void post_receive(Link& link) {
    void* data = buffers_->received;
    size_t size = kMessageBytes;
    int tag = kTag;
    void* phandle = nullptr;
    End& end = link.receiver;
    while (end.request == nullptr) {
      require(net_.irecv(end.comm, 1, &data, &size, &tag, &end.mr, &phandle, &end.request),
              "irecv");
    }
  }

  // A poll of a receive whose message has not been sent.
  void poll(Link& link) {
    int done = 0;
    int size = 0;
    require(net_.test(link.receiver.request, &done, &size), "test");
    if (done != 0) die("a receive completed whose message was not sent");
  }

  void send_and_finish(Link& link) {
    End& end = link.sender;
    while (end.request == nullptr) {
      require(
          net_.isend(end.comm, buffers_->sent, kMessageBytes, kTag, end.mr, nullptr, &end.request),
          "isend");
    }
    finish(link.sender);
    finish(link.receiver);
  }

  void close(Link& link) {
    for (End* end : {&link.sender, &link.receiver}) {
      require(net_.dereg_mr(end->comm, end->mr), "deregMr");
    }
    gdr::bench::disconnect(net_, {link.sender.comm, link.receiver.comm});
  }

 private:
  void add_memory(End& end, char* data) {
    end.mr = gdr::bench::register_host(net_, end.comm, data, sizeof(buffers_->sent));
  }
  void finish(End& end) {
    int done = 0;
    int size = 0;
    while (done == 0) require(net_.test(end.request, &done, &size), "test");
    end.request = nullptr;
  }

  Net& net_;
  void* context_;
  std::unique_ptr<Buffers> buffers_ = std::make_unique<Buffers>();
};
}  // namespace

extern "C" {
// What callgrind counts.
[[gnu::noinline]] void idle_poll(Bench* bench, Link* link) { bench->poll(*link); }
}

namespace {
// Prints a name and a number of the report, which is a JSON object.
void report(const char* name, double value) {
  static const char* separator = "{";
  std::printf("%s\"%s\": %.6g", separator, name, value);
  separator = ", ";
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double seconds_of(const std::function<void()>& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return seconds_since(begin);
}

void check_limit(int per_connection, int count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr int kForOneInProgress = 16;
  const auto needed = static_cast<rlim_t>(open_descriptors()) +
                      static_cast<rlim_t>(per_connection) * static_cast<rlim_t>(count) +
                      kForOneInProgress;
  if (needed <= limit.rlim_cur) return;
  die(std::to_string(count) + " connections need " + std::to_string(needed) +
      " descriptors, and the limit is " + std::to_string(limit.rlim_cur) +
      ". Fix: raise the limit of open files (ulimit -n) or open fewer connections");
}

// Nanoseconds of one poll: of one connection again and again, and of all in turn.
void measure_polls(Bench& bench, std::vector<Link>& links, int polls) {
  const double one = seconds_of([&] {
    for (int i = 0; i < polls; ++i) idle_poll(&bench, &links.front());
  });
  const int rounds = std::max(1, polls / static_cast<int>(links.size()));
  const double all = seconds_of([&] {
    for (int i = 0; i < rounds; ++i) {
      for (Link& link : links) idle_poll(&bench, &link);
    }
  });
  report("poll_one_ns", one * 1e9 / polls);
  report("poll_all_ns", all * 1e9 / rounds / static_cast<double>(links.size()));
}

void use_once(Bench& bench, std::vector<Link>& links) {
  for (Link& link : links) bench.register_memory(link);
  for (Link& link : links) bench.post_receive(link);
}

void measure(Bench& bench, int count, int polls) {
  const int before_first = open_descriptors();
  std::vector<Link> first{bench.connect()};
  check_limit(open_descriptors() - before_first, count);
  use_once(bench, first);
  bench.send_and_finish(first.front());

  std::vector<Link> links(static_cast<size_t>(count));
  const auto per_connection = [count](double value) { return value / count; };
  const double memory = memory_in_use();
  const int descriptors = open_descriptors();
  const Clock::time_point begin = Clock::now();
  for (Link& link : links) link = bench.connect();
  report("setup_us", per_connection(seconds_since(begin) * 1e6));
  report("open_kib", per_connection(memory_in_use() - memory));
  report("descriptors", per_connection(open_descriptors() - descriptors));

  use_once(bench, links);
  measure_polls(bench, links, polls);
  for (Link& link : links) bench.send_and_finish(link);
  report("used_kib", per_connection(memory_in_use() - memory));

  report("teardown_us", per_connection(1e6 * seconds_of([&] {
                                         for (Link& link : links) bench.close(link);
                                       })));
  bench.close(first.front());
  std::puts("}");
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    die("usage: connections_driver PLUGIN_FILE CONNECTIONS POLLS newest|TABLE_VERSION");
  }
  const int count = std::atoi(argv[2]);
  const int polls = std::atoi(argv[3]);
  if (count < 1 || polls < 1) die("the numbers of connections and of polls are at least 1");
  Bench bench(gdr::bench::load(argv[1], argv[4]));
  measure(bench, count, polls);
  return 0;
}
