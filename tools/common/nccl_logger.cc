#include "tools/common/nccl_logger.h"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace gdr::tools {
namespace {
// By the bit of NCCL's ncclDebugLogSubSys, and by ncclDebugLogLevel.
constexpr std::array kSubsystems{"INIT",      "COLL", "P2P",     "SHM",  "NET",   "GRAPH",
                                 "TUNING",    "ENV",  "ALLOC",   "CALL", "PROXY", "NVLS",
                                 "BOOTSTRAP", "REG",  "PROFILE", "RAS"};
constexpr std::array kLevels{"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
constexpr unsigned long kDefaultSubsystems = 0x1 | 0x80 | 0x1000;  // INIT, ENV, BOOTSTRAP
constexpr size_t kMaxLine = 4096;                                  // longer lines are truncated

std::atomic<int> g_device{0};
std::atomic<DefaultLog> g_default{DefaultLog::kNothing};

// Returns the number of the name in any case, or N.
template <size_t N>
size_t find_named(const std::array<const char*, N>& names, const std::string& name) {
  auto is_it = [&](const char* one) { return strcasecmp(one, name.c_str()) == 0; };
  return static_cast<size_t>(std::ranges::find_if(names, is_it) - names.begin());
}

struct Output {
  LogFilter filter;
  std::FILE* stream = stderr;  // open until the process ends, as lines may come from any thread
};

const Output& output() {
  static const Output instance = [] {
    Output made;
    const char* debug = std::getenv("NCCL_DEBUG");
    if (debug == nullptr && g_default.load() == DefaultLog::kWarnings) debug = "WARN";
    made.filter = parse_log_filter(debug, std::getenv("NCCL_DEBUG_SUBSYS"));
    const char* pattern = std::getenv("NCCL_DEBUG_FILE");
    if (pattern != nullptr && *pattern != '\0') {
      if (std::FILE* file = std::fopen(expand_log_file(pattern).c_str(), "w")) made.stream = file;
    }
    return made;
  }();
  return instance;
}
}  // namespace

LogFilter parse_log_filter(const char* debug, const char* subsystems) {
  LogFilter filter;
  if (debug == nullptr) return filter;
  if (const size_t level = find_named(kLevels, debug); level < kLevels.size()) {
    filter.level = static_cast<abi::ncclDebugLogLevel>(level);
  }
  if (subsystems == nullptr || *subsystems == '\0') {
    filter.subsystems = kDefaultSubsystems;
    return filter;
  }
  bool exclude = *subsystems == '^';
  unsigned long named = 0;
  std::stringstream list(subsystems + (exclude ? 1 : 0));
  for (std::string word; std::getline(list, word, ',');) {
    const size_t bit = find_named(kSubsystems, word);
    if (bit < kSubsystems.size()) named |= 1ul << bit;
    if (strcasecmp(word.c_str(), "ALL") == 0) named = ~0ul;
  }
  filter.subsystems = exclude ? ~named : named;
  return filter;
}

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return std::string(name).substr(0, std::string_view(name).find('.'));
}

std::string expand_log_file(const std::string& pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'h' && next != 'p' && next != '%')) {
      out += pattern[i];
      continue;
    }
    ++i;
    out += next == 'h' ? host_name() : next == 'p' ? std::to_string(getpid()) : "%";
  }
  return out;
}

void set_default_log(DefaultLog choice) { g_default.store(choice); }

bool logs_warnings() { return output().filter.level >= abi::kLogWarn; }

void set_logger_device(int device) { g_device.store(device, std::memory_order_relaxed); }

void nccl_logger(abi::ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                 const char* format, ...) {
  const Output& out = output();
  if (level > out.filter.level) return;
  // As in NCCL, warnings appear whatever the subsystems are.
  if (level != abi::kLogWarn && (flags & out.filter.subsystems) == 0) return;
  char text[kMaxLine];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  static const std::string host = host_name();
  long thread = syscall(SYS_gettid);
  int device = g_device.load(std::memory_order_relaxed);
  if (level == abi::kLogWarn) {
    std::fprintf(out.stream, "\n%s:%d:%ld [%d] %s:%d NCCL WARN %s\n", host.c_str(), getpid(),
                 thread, device, file == nullptr ? "?" : file, line, text);
  } else {
    std::fprintf(out.stream, "%s:%d:%ld [%d] NCCL %s %s\n", host.c_str(), getpid(), thread, device,
                 level == abi::kLogTrace ? "TRACE" : "INFO", text);
  }
  std::fflush(out.stream);
}

}  // namespace gdr::tools
