#include "transport/device/port_speed.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <fstream>
#include <span>
#include <string>

namespace gdr::transport {
namespace {

// A bit code of ibv_port_attr and what it stands for.
struct CodeValue {
  uint32_t code;
  int value;
};

constexpr uint32_t kNdr = 128;

// active_speed: Mb/s of one lane, rounded as NCCL's net_ib does. IBTA specification, volume 1,
// PortInfo:LinkSpeedActive and LinkSpeedExtActive; rdma-core's libibverbs/examples/devinfo.c.
constexpr CodeValue kLaneSpeeds[] = {
    {1, 2500},       // SDR
    {2, 5000},       // DDR
    {4, 10000},      // QDR
    {8, 10000},      // FDR10
    {16, 14000},     // FDR
    {32, 25000},     // EDR
    {64, 50000},     // HDR
    {kNdr, 100000},  // NDR
};

// active_width: lanes. PortInfo:LinkWidthActive.
constexpr CodeValue kLaneCounts[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

int find_or_zero(std::span<const CodeValue> table, uint32_t code) {
  for (const CodeValue& entry : table) {
    if (entry.code == code) return entry.value;
  }
  return 0;
}

int effective_speed_mbps(const verbs::Api& api, ibv_context* context, int port) {
  constexpr uint64_t kUnitMbps = 100;
  uint64_t units = 0;
  if (api.query_port_speed == nullptr) return 0;
  if (api.query_port_speed(context, static_cast<uint32_t>(port), &units) != 0) return 0;
  return units <= INT_MAX / kUnitMbps ? static_cast<int>(units * kUnitMbps) : 0;
}

int sysfs_speed_mbps(ibv_context* context, int port) {
  std::ifstream file(std::string(context->device->ibdev_path) + "/ports/" + std::to_string(port) +
                     "/rate");
  std::string text;
  std::getline(file, text);
  return rate_mbps(text);
}

}  // namespace

int port_speed_mbps(const verbs::Api& api, ibv_context* context, int port,
                    bool use_query_port_speed) {
  if (use_query_port_speed) {
    if (int speed = effective_speed_mbps(api, context, port); speed > 0) return speed;
  }
  ibv_port_attr attr{};
  if (api.query_port(context, static_cast<uint8_t>(port), &attr) != 0) attr = {};
  const int speed = link_speed_mbps(attr.active_speed, attr.active_width);
  if (speed > 0 && attr.active_speed != kNdr) return speed;
  return std::max(speed, sysfs_speed_mbps(context, port));
}

int link_speed_mbps(uint32_t active_speed, unsigned active_width) {
  return find_or_zero(kLaneSpeeds, active_speed) * find_or_zero(kLaneCounts, active_width);
}

int rate_mbps(std::string_view text) {
  double gbps = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gbps);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  const bool sound = error == std::errc() && gbps > 0 && gbps < 1e6;
  return sound && unit.starts_with(" Gb/sec") ? static_cast<int>(gbps * 1000 + 0.5) : 0;
}

}  // namespace gdr::transport
