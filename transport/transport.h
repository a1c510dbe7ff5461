// The transport as a whole: devices, listeners, connections being made, registrations. It calls
// nothing of NCCL and includes none of its headers; its texts name NCCL's variables, since those
// are what a user sets.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/connector.h"
#include "transport/device/hca.h"
#include "transport/handshakes.h"
#include "transport/listener.h"
#include "transport/memory/registrar.h"
#include "transport/options.h"

namespace gdr::transport {

// Counters of one process since its transport was made.
struct TransportStats {
  ProcessSums sums;
  // By HCA, of those that have been used.
  std::map<std::string, RegistrationCounts> registrations;
  std::map<std::string, uint64_t> registered_gpu_bytes;  // now
};

// Thread-safe. The comms that it hands out are not: the data path of each belongs to one thread.
class Transport {
 public:
  // Starts a transport over these devices; device i is devices[i]. Fails where the watcher's thread
  // cannot be started.
  static Result<std::unique_ptr<Transport>> create(std::vector<Device> devices,
                                                   TransportOptions options);

  const std::vector<Device>& devices() const { return devices_; }
  const TransportOptions& options() const { return *options_; }

  // The options of a connection's owner. Null: options().connection.
  using SharedConnectionOptions = std::shared_ptr<const ConnectionOptions>;

  // Listens for one or more senders, on one device or several. The devices of a choice exist, are
  // different, and at most wire::kMaxRails.
  Result<std::unique_ptr<Listener>> listen(const RailChoice& rails,
                                           SharedConnectionOptions connection = nullptr);
  // Connects to the listener that filled the handle, without waiting. Returns null when it is not
  // done: call again with the same buffer, in which handle->connect_ticket names the connection.
  // One that is not called for minutes is given up; a later call with its ticket is an error. The
  // first call's `connection` counts.
  Result<std::unique_ptr<SendComm>> connect(const RailChoice& rails, wire::Handle* handle,
                                            SharedConnectionOptions connection = nullptr);

  // What the process has moved and registered so far, for metrics.
  TransportStats stats() const;
  uint64_t connections() const { return watcher_->connections(); }

  // Registers memory for the comms of all devices.
  Registrar& registrar() { return *registrar_; }

 private:
  Transport() = default;
  Result<Connector*> find_or_start(const RailChoice& rails, wire::Handle* handle,
                                   SharedConnectionOptions connection);
  HandshakeContext context(SharedConnectionOptions connection) const;

  std::shared_ptr<const TransportOptions> options_;
  std::vector<Device> devices_;
  std::unique_ptr<HandshakeRegistry> handshakes_;  // outlives the watcher's thread
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<Registrar> registrar_;
  std::mutex mutex_;  // guards connectors_
  // By ticket. Those that NCCL has abandoned stay, without what they held, for a late call.
  std::map<uint64_t, std::unique_ptr<Connector>> connectors_;
};

}  // namespace gdr::transport
