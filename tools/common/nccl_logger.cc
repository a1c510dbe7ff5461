#include "tools/common/nccl_logger.h"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace gdr::tools {
namespace {
struct Named {
  const char* name;
  unsigned long value;
};
// Bits of NCCL's ncclDebugLogSubSys.
constexpr std::array<Named, 17> kSubsystems{{{"INIT", 0x1},
                                             {"COLL", 0x2},
                                             {"P2P", 0x4},
                                             {"SHM", 0x8},
                                             {"NET", 0x10},
                                             {"GRAPH", 0x20},
                                             {"TUNING", 0x40},
                                             {"ENV", 0x80},
                                             {"ALLOC", 0x100},
                                             {"CALL", 0x200},
                                             {"PROXY", 0x400},
                                             {"NVLS", 0x800},
                                             {"BOOTSTRAP", 0x1000},
                                             {"REG", 0x2000},
                                             {"PROFILE", 0x4000},
                                             {"RAS", 0x8000},
                                             {"ALL", ~0ul}}};
constexpr std::array<Named, 6> kLevels{{{"NONE", abi::kLogNone},
                                        {"VERSION", abi::kLogVersion},
                                        {"WARN", abi::kLogWarn},
                                        {"INFO", abi::kLogInfo},
                                        {"ABORT", abi::kLogAbort},
                                        {"TRACE", abi::kLogTrace}}};
constexpr unsigned long kDefaultSubsystems = 0x1 | 0x80 | 0x1000;  // INIT, ENV, BOOTSTRAP
constexpr size_t kMaxLine = 4096;                                  // longer lines are truncated

std::atomic<int> g_device{0};
std::atomic<DefaultLog> g_default{DefaultLog::kNothing};

template <size_t N>
const Named* find_named(const std::array<Named, N>& table, const std::string& name) {
  for (const Named& entry : table) {
    if (strcasecmp(entry.name, name.c_str()) == 0) return &entry;
  }
  return nullptr;
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
  if (const Named* level = find_named(kLevels, debug)) {
    filter.level = static_cast<abi::ncclDebugLogLevel>(level->value);
  }
  if (subsystems == nullptr || *subsystems == '\0') {
    filter.subsystems = kDefaultSubsystems;
    return filter;
  }
  bool exclude = *subsystems == '^';
  unsigned long named = 0;
  std::stringstream list(subsystems + (exclude ? 1 : 0));
  for (std::string word; std::getline(list, word, ',');) {
    if (const Named* entry = find_named(kSubsystems, word)) named |= entry->value;
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
