#include "tools/net/start.h"

#include <fmt/format.h>

#include "tools/common/installed_folders.h"
#include "tools/common/nccl_logger.h"

namespace gdr::tools {

Result<void*> init_plugin(Net& net, const InitArguments& settings, const std::string& command) {
  set_default_log(DefaultLog::kWarnings);
  void* context = nullptr;
  const abi::ncclResult_t result = net.init(settings, &context);
  if (result == abi::ncclSuccess) return context;
  return fail(
      Code::kSystem,
      fmt::format("init of the plugin \"{}\": {}; {}. Fix: {}", net.name(), describe(result),
                  logs_warnings() ? "the warnings in its log say why" : "NCCL_DEBUG=WARN shows why",
                  fix_without_device(command)));
}

Result<int> count_devices(Net& net, const std::string& command) {
  int count = 0;
  const abi::ncclResult_t result = net.devices(&count);
  if (result != abi::ncclSuccess) {
    return fail(Code::kSystem,
                fmt::format("devices of the plugin \"{}\": {}", net.name(), describe(result)));
  }
  if (count > 0) return count;
  return fail(Code::kSystem,
              fmt::format("the plugin \"{}\" offers no device; NCCL_DEBUG=INFO shows why. Fix: {}",
                          net.name(), fix_without_device(command)));
}

}  // namespace gdr::tools
