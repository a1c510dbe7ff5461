// Loads a network plugin as NCCL does, looks up its tables, and starts it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/net/net.h"

namespace gdr::tools {

struct DlClose {
  void operator()(void* library) const;
};

class Plugin {
 public:
  // Loads a plugin by the name of a file, or by a value of NCCL_NET_PLUGIN ("gdr" for
  // libnccl-net-gdr.so). Tries the name itself, libnccl-net-<name>.so, and that file in the library
  // folders of the running program. The error has the reason of each attempt.
  // `table` is the version of the table to use; without it, the newest that the plugin exports, as
  // in NCCL. The error of a version that the plugin lacks lists those that it has.
  static Result<Plugin> load(const std::string& name, std::optional<int> table = {});

  Net& net() const { return *net_; }
  const std::string& file() const { return file_; }
  // The versions of the tables that the plugin exports, the newest first.
  const std::vector<int>& tables() const { return tables_; }

 private:
  Plugin() = default;
  Status choose(std::optional<int> table);

  std::unique_ptr<void, DlClose> handle_;
  std::unique_ptr<Net> net_;  // of a table in the library
  std::string file_;
  std::vector<int> tables_;
};

// Returns the names for dlopen, in order. Exposed for the tests.
std::vector<std::string> plugin_candidates(const std::string& name, const std::string& program_dir);

// Parses the value of --table: "newest" (an empty result) or a version, such as "9".
Result<std::optional<int>> parse_table(const std::string& text);

// What follows starts a plugin as a run needs it: initialised, with at least one device, and the
// one that the command line names. The errors say what to do, with the command that was called
// ("perf sendrecv").

// Initialises the plugin with a logger that prints warnings where NCCL_DEBUG is not set. Returns
// the context, which the caller finalizes.
Result<void*> init_plugin(Net& net, const InitArguments& settings, const std::string& command);

// Returns the number of devices, which is above 0.
Result<int> count_devices(Net& net, const std::string& command);

// Parses "2", or "0+1" for the device that the plugin is to merge of devices 0 and 1. Fails with
// kInvalidUsage; the text names what is accepted.
Result<MergedDevices> parse_device(std::string_view text);

// Returns the text that parse_device() reads.
std::string to_string(const MergedDevices& named);

// Returns the number of the device, which the plugin merges first where it has several parts. Fails
// where the plugin has no such devices or does not merge them.
Result<int> find_device(Net& net, const MergedDevices& named);

}  // namespace gdr::tools
