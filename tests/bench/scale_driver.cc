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
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/net/plugin_loader.h"

namespace {
using gdr::abi::ncclResult_t;
using gdr::abi::ncclSuccess;
using gdr::tools::Net;
using gdr::tools::Plugin;

struct Connection {
  void* sender = nullptr;
  void* receiver = nullptr;
  void* sender_memory = nullptr;
  void* receiver_memory = nullptr;
};

std::atomic<uint64_t> g_warnings{0};
std::atomic<uint64_t> g_lines{0};

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "scale_driver: %s\n", what);
  std::exit(1);
}

void require(ncclResult_t result, const char* entry) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "scale_driver: %s returned %d\n", entry, result);
  std::exit(1);
}

// Counts what NCCL_DEBUG=INFO shows without NCCL_DEBUG_SUBSYS.
void count_lines(gdr::abi::ncclDebugLogLevel level, unsigned long subsystems, const char*, int,
                 const char* format, ...) {
  constexpr unsigned long kShown = 0x1 | 0x80 | 0x1000;  // INIT, ENV, BOOTSTRAP (nccl_common.h)
  if (level <= gdr::abi::kLogWarn) {
    ++g_warnings;
    va_list arguments;
    va_start(arguments, format);
    // Other formats without their arguments: nccl-rdma-sharp-plugins passes a pointer that it has
    // not set.
    const bool text = std::strcmp(format, "%s") == 0;
    std::fprintf(stderr, "%s\n", text ? va_arg(arguments, const char*) : format);
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
  Connection made;
  char handle[gdr::abi::kHandleMaxBytes] = {};
  void* listener = nullptr;
  require(net.listen(context, 1, handle, &listener), "listen");
  while (made.sender == nullptr || made.receiver == nullptr) {
    if (made.sender == nullptr) require(net.connect(context, 0, handle, &made.sender), "connect");
    if (made.receiver == nullptr) require(net.accept(listener, &made.receiver), "accept");
  }
  require(net.close_listen(listener), "closeListen");
  require(net.reg_mr(made.sender, memory.data(), memory.size(), gdr::abi::kPtrHost,
                     &made.sender_memory),
          "regMr");
  require(net.reg_mr(made.receiver, memory.data(), memory.size(), gdr::abi::kPtrHost,
                     &made.receiver_memory),
          "regMr");
  return made;
}

void close(Net& net, const Connection& connection) {
  require(net.dereg_mr(connection.sender, connection.sender_memory), "deregMr");
  require(net.dereg_mr(connection.receiver, connection.receiver_memory), "deregMr");
  require(net.close_send(connection.sender), "closeSend");
  require(net.close_recv(connection.receiver), "closeRecv");
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) die("usage: scale_driver PLUGIN_FILE newest|TABLE_VERSION CONNECTIONS...");
  auto table = gdr::tools::parse_table(argv[2]);
  if (!table) die(table.error().text.c_str());
  auto plugin = Plugin::load(argv[1], *table);
  if (!plugin) die(plugin.error().text.c_str());
  // It stays loaded: nccl-rdma-sharp-plugins has a thread that outlives its library.
  Net& net = (new Plugin(std::move(*plugin)))->net();
  gdr::tools::InitArguments arguments;
  arguments.logger = &count_lines;
  void* context = nullptr;
  require(net.init(arguments, &context), "init");
  int devices = 0;
  require(net.devices(&devices), "devices");
  if (devices < 2) die("the plugin found fewer than two devices");
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
