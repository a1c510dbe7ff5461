#include "plugin/communicator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "plugin/profiler.h"

namespace gdr::plugin {
namespace {

constexpr int kMaxTrafficClass = 255;
constexpr int kServiceLevelBits = 0xf;  // of an address vector

// A negative number means unset: beside abi::kTrafficClassUndefined, NCCL's host RMA writes the
// smallest int, by which ncclConfig_t marks what is not chosen, into the context of its shim for
// v10 (src/rma/rma_proxy.cc of 2.30). One that is too large must not fail the connection: NCCL
// would give the plugin up for all communicators of the process.
std::optional<uint8_t> traffic_class_of(const CommunicatorSettings& settings) {
  if (settings.traffic_class < 0) return std::nullopt;
  if (settings.traffic_class <= kMaxTrafficClass) {
    return static_cast<uint8_t>(settings.traffic_class);
  }
  GDR_WARN(
      "the traffic class %d of a communicator is ignored: it is not within 0 and %d. Fix: "
      "correct ncclConfig_t::trafficClass",
      settings.traffic_class, kMaxTrafficClass);
  return std::nullopt;
}

}  // namespace

std::string to_string(const Communicator& communicator) {
  return "communicator " + hex(communicator.id);
}

Communicator make_communicator(const transport::ConnectionOptions& base,
                               const CommunicatorSettings& settings) {
  transport::ConnectionOptions connection = base;
  if (const std::optional<uint8_t> chosen = traffic_class_of(settings)) {
    if (!connection.traffic_class) connection.traffic_class = chosen;
    if (!connection.service_level) connection.service_level = *chosen & kServiceLevelBits;
  }
  Communicator communicator;
  communicator.nccls_traffic_class = settings.traffic_class;
  communicator.id = settings.id;
  if (settings.id != 0) connection.owner = to_string(communicator);
  communicator.connection = std::make_shared<const transport::ConnectionOptions>(connection);
  connection.observer = profiler_observer(settings.profiler, settings.table_version);
  communicator.profiled_connection =
      std::make_shared<const transport::ConnectionOptions>(std::move(connection));
  return communicator;
}

Communicator* OpenCommunicators::open(Communicator communicator) {
  std::lock_guard lock(mutex_);
  return open_.emplace_back(std::make_unique<Communicator>(std::move(communicator))).get();
}

bool OpenCommunicators::has_one_of(abi::ncclDebugLogger_t logger) {
  std::lock_guard lock(mutex_);
  return std::any_of(open_.begin(), open_.end(),
                     [&](const auto& open) { return open->logger == logger; });
}

bool OpenCommunicators::close(const void* context) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const auto& open) { return open.get() == context; });
  if (found == open_.end()) return false;
  closed_.push_back(std::move(*found));
  open_.erase(found);
  if (open_.empty()) closed_.clear();
  return true;
}

}  // namespace gdr::plugin
