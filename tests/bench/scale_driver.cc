// Opens connections through a plugin's table over the software HCA, both ends in this process, and
// prints what the process then has: descriptors, threads, memory, lines of the log. The script
// `scale` runs this program.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "tests/bench/net_pair.h"

namespace {
using gdr::bench::die;
using gdr::bench::require;
using gdr::tools::Net;

struct Connection {
  gdr::bench::Pair pair;
  void* sender_memory = nullptr;
  void* receiver_memory = nullptr;
};

std::atomic<uint64_t> g_warnings{0};
std::atomic<uint64_t> g_lines{0};

// Counts what NCCL_DEBUG=INFO shows without NCCL_DEBUG_SUBSYS.
void count_lines(gdr::abi::ncclDebugLogLevel level, unsigned long subsystems, const char* file,
                 int line, const char* format, ...) {
  constexpr unsigned long kShown = 0x1 | 0x80 | 0x1000;  // INIT, ENV, BOOTSTRAP (nccl_common.h)
  if (level <= gdr::abi::kLogWarn) {
    ++g_warnings;
    va_list arguments;
    va_start(arguments, format);
    gdr::bench::print_warning(file, line, format, arguments);
    va_end(arguments);
  } else if (level == gdr::abi::kLogInfo && (subsystems & kShown) != 0) {
    ++g_lines;
  }
}

// By kind: "socket", "anon_inode", or "file" for what has a path.
std::map<std::string, int> descriptors() {
  std::map<std::string, int> kinds;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (gone || target.starts_with("/proc/")) continue;  // that of this iteration
    ++kinds[target.starts_with("/") ? "file" : target.substr(0, target.find(':'))];
  }
  return kinds;
}

std::vector<std::string> threads() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    names.push_back(name);
  }
  return names;
}

// A field of /proc/self/status in KiB.
uint64_t status_kib(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":"))
      return std::strtoull(line.c_str() + field.size() + 1, nullptr, 10);
  }
  return 0;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One line of JSON.
void report(size_t connections) {
  const std::map<std::string, int> kinds = descriptors();
  int all = 0;
  for (const auto& [name, count] : kinds) all += count;
  std::printf("{\"connections\": %zu, \"descriptors\": %d, \"kinds\": {", connections, all);
  const char* separator = "";
  for (const auto& [name, count] : kinds) {
    std::printf("%s\"%s\": %d", separator, name.c_str(), count);
    separator = ", ";
  }
  std::printf("}, \"threads\": [");
  separator = "";
  for (const std::string& name : threads()) {
    std::printf("%s\"%s\"", separator, name.c_str());
    separator = ", ";
  }
  std::printf(
      "], \"anonymous_kib\": %llu, \"cpu_seconds\": %.6f, \"lines\": %llu, \"warnings\": %llu}\n",
      static_cast<unsigned long long>(status_kib("RssAnon")), cpu_seconds(),
      static_cast<unsigned long long>(g_lines.load()),
      static_cast<unsigned long long>(g_warnings.load()));
  std::fflush(stdout);
}

Connection connect(Net& net, void* context, std::vector<char>& memory) {
  Connection made{gdr::bench::connect(net, context, 0, 1)};
  made.sender_memory =
      gdr::bench::register_host(net, made.pair.sender, memory.data(), memory.size());
  made.receiver_memory =
      gdr::bench::register_host(net, made.pair.receiver, memory.data(), memory.size());
  return made;
}

void close(Net& net, const Connection& connection) {
  require(net.dereg_mr(connection.pair.sender, connection.sender_memory), "deregMr");
  require(net.dereg_mr(connection.pair.receiver, connection.receiver_memory), "deregMr");
  gdr::bench::disconnect(net, connection.pair);
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) die("usage: scale_driver PLUGIN_FILE newest|TABLE_VERSION CONNECTIONS...");
  Net& net = gdr::bench::load(argv[1], argv[2]);
  void* context = gdr::bench::init(net, &count_lines, 2);
  std::vector<char> memory(size_t{1} << 20);
  std::vector<Connection> connections;
  report(0);
  for (int i = 3; i < argc; ++i) {
    while (connections.size() < std::strtoull(argv[i], nullptr, 10)) {
      connections.push_back(connect(net, context, memory));
    }
    report(connections.size());
  }
  for (const Connection& connection : connections) close(net, connection);
  require(net.finalize(context), "finalize");
  return 0;
}
