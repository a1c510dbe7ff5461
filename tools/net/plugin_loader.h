// Loads a network plugin as NCCL does and looks up its v8 table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "plugin/abi/net_v8.h"

namespace gdr::tools {

struct DlClose {
  void operator()(void* library) const;
};

class Plugin {
 public:
  // Loads a plugin by the name of a file, or by a value of NCCL_NET_PLUGIN ("gdr" for
  // libnccl-net-gdr.so). Tries the name itself, libnccl-net-<name>.so, and that file in ../lib of
  // the running program. The error has the reason of each attempt.
  static Result<Plugin> load(const std::string& name);

  const abi::ncclNet_v8_t& net() const { return *net_; }
  const std::string& file() const { return file_; }

 private:
  Plugin() = default;
  std::unique_ptr<void, DlClose> handle_;
  const abi::ncclNet_v8_t* net_ = nullptr;
  std::string file_;
};

// Returns the names for dlopen, in order. Exposed for the tests.
std::vector<std::string> plugin_candidates(const std::string& name, const std::string& program_dir);

// Returns a text for people: "success", "system error (2)".
std::string describe(abi::ncclResult_t result);

}  // namespace gdr::tools
