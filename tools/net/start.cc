#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "tools/common/installed_folders.h"
#include "tools/common/nccl_logger.h"
#include "tools/net/plugin_loader.h"

namespace gdr::tools {
namespace {

std::span<const int> parts_of(const MergedDevices& named) {
  return std::span(named.devices).first(static_cast<size_t>(named.count));
}

}  // namespace

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

Result<MergedDevices> parse_device(std::string_view text) {
  const auto bad =
      fail(Code::kInvalidUsage,
           fmt::format("\"{}\" is not a device: use its index, or 0+1 for the one that the "
                       "plugin merges of devices 0 and 1, of at most {}, each once",
                       text, abi::kMaxMergedDevices));
  MergedDevices named;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int index = -1;
    const auto [next, error] = std::from_chars(at, end, index);
    if (error != std::errc() || index < 0 || named.count == abi::kMaxMergedDevices) return bad;
    if (std::ranges::count(parts_of(named), index) > 0) return bad;
    named.devices[static_cast<size_t>(named.count++)] = index;
    if (next == end) return named;
    if (*next != '+') return bad;
    at = next + 1;
  }
}

std::string to_string(const MergedDevices& named) {
  return fmt::format("{}", fmt::join(parts_of(named), "+"));
}

Result<int> find_device(Net& net, const MergedDevices& named) {
  int count = 0;
  if (auto result = net.devices(&count); result != abi::ncclSuccess) {
    return fail(Code::kSystem, fmt::format("devices: {}", describe(result)));
  }
  for (int part : parts_of(named)) {
    if (part < count) continue;
    return fail(Code::kInvalidUsage,
                fmt::format("--dev {}: the plugin has devices 0..{}", to_string(named), count - 1));
  }
  if (named.count == 1) return named.devices[0];
  if (!net.has(NetEntry::kMakeVDevice)) {
    return fail(Code::kInvalidUsage,
                fmt::format("--dev {}: version {} of the plugin's table has no "
                            "makeVDevice",
                            to_string(named), net.version()));
  }
  int made = -1;
  if (auto result = net.make_v_device(&made, named); result != abi::ncclSuccess) {
    return fail(Code::kSystem, fmt::format("--dev {}: makeVDevice: {}; NCCL_DEBUG=INFO shows why",
                                           to_string(named), describe(result)));
  }
  return made;
}

}  // namespace gdr::tools
