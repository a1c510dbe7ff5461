#include "plugin/communicator.h"

#include <optional>

#include "plugin/profiler.h"

namespace gdr::plugin {
namespace {

constexpr int kServiceLevelBits = 0xf;  // of an address vector

}  // namespace

std::string to_string(const Communicator& communicator) {
  return "communicator " + hex(communicator.id);
}

Result<Communicator> make_communicator(const transport::ConnectionOptions& base,
                                       const CommunicatorSettings& settings) {
  transport::ConnectionOptions connection = base;
  if (settings.traffic_class != abi::kTrafficClassUndefined) {
    if (settings.traffic_class < 0 || settings.traffic_class > 255) {
      return fail(Code::kInvalidArgument,
                  "the communicator's traffic class is " + std::to_string(settings.traffic_class) +
                      ". Fix: set ncclConfig_t::trafficClass to 0 to 255, or leave it undefined");
    }
    const auto chosen = static_cast<uint8_t>(settings.traffic_class);
    if (!connection.traffic_class) connection.traffic_class = chosen;
    if (!connection.service_level) connection.service_level = chosen & kServiceLevelBits;
  }
  Communicator communicator;
  communicator.nccls_traffic_class = settings.traffic_class;
  communicator.id = settings.id;
  communicator.operation = std::make_shared<CurrentOperation>();
  if (settings.id != 0) {
    connection.owner_text = [name = to_string(communicator), operation = communicator.operation] {
      const std::string running = operation->to_string();
      return running.empty() ? name : name + " (" + running + ")";
    };
  }
  communicator.connection = std::make_shared<const transport::ConnectionOptions>(connection);
  connection.observer = profiler_observer(settings.profiler);
  communicator.profiled_connection =
      std::make_shared<const transport::ConnectionOptions>(std::move(connection));
  return communicator;
}

}  // namespace gdr::plugin
