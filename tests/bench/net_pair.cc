#include "tests/bench/net_pair.h"

#include <errno.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gdr::bench {
namespace {

std::string limit_text(const rlimit& limit) {
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
}

}  // namespace

void die(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::exit(1);
}

void fail_entry(abi::ncclResult_t result, const char* entry) {
  rlimit files{}, locked{};
  getrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_MEMLOCK, &locked);
  die(std::string(entry) + " returned " + std::to_string(result) +
      "; the limits of this process are " + limit_text(files) + " open files (ulimit -n) and " +
      limit_text(locked) + " bytes of locked memory (ulimit -l)");
}

void print_warning(const char* file, int line, const char* format, va_list arguments) {
  const bool whole = std::strcmp(format, "%s") == 0;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, whole ? va_arg(arguments, const char*) : format);
}

void log_warnings(abi::ncclDebugLogLevel level, unsigned long, const char* file, int line,
                  const char* format, ...) {
  if (level > abi::kLogWarn) return;
  va_list arguments;
  va_start(arguments, format);
  print_warning(file, line, format, arguments);
  va_end(arguments);
}

tools::Net& load(const char* file, const char* table) {
  auto version = tools::parse_table(table);
  if (!version) die(version.error().text);
  auto plugin = tools::Plugin::load(file, *version);
  if (!plugin) die(plugin.error().text);
  return (new tools::Plugin(std::move(*plugin)))->net();
}

void* init(tools::Net& net, abi::ncclDebugLogger_t logger, int least_devices) {
  tools::InitArguments arguments;
  arguments.logger = logger;
  void* context = nullptr;
  require(net.init(arguments, &context), "init");
  int devices = 0;
  require(net.devices(&devices), "devices");
  if (devices < least_devices) {
    die("devices found by the plugin: " + std::to_string(devices) +
        ", needed: " + std::to_string(least_devices));
  }
  return context;
}

Pair connect(tools::Net& net, void* context, int sending_device, int receiving_device) {
  Pair pair;
  char handle[abi::kHandleMaxBytes] = {};
  void* listener = nullptr;
  require(net.listen(context, receiving_device, handle, &listener), "listen");
  while (pair.sender == nullptr || pair.receiver == nullptr) {
    if (pair.sender == nullptr) {
      require(net.connect(context, sending_device, handle, &pair.sender), "connect");
    }
    if (pair.receiver == nullptr) require(net.accept(listener, &pair.receiver), "accept");
  }
  require(net.close_listen(listener), "closeListen");
  return pair;
}

void* register_host(tools::Net& net, void* comm, void* data, size_t bytes) {
  void* handle = nullptr;
  require(net.reg_mr(comm, data, bytes, abi::kPtrHost, &handle), "regMr");
  return handle;
}

void disconnect(tools::Net& net, const Pair& pair) {
  require(net.close_send(pair.sender), "closeSend");
  require(net.close_recv(pair.receiver), "closeRecv");
}

}  // namespace gdr::bench
