// The transport as a whole: devices, listeners, connections in the making, registrations. Knows
// nothing of NCCL. Thread-safe; the comms it hands out have a data path of one thread each.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/connector.h"
#include "transport/device/hca.h"
#include "transport/listener.h"
#include "transport/memory/registrar.h"
#include "transport/options.h"

namespace gdr::transport {

class Transport {
 public:
  // Starts a transport over these devices; device i is devices[i]. Fails where the watcher's thread
  // cannot be started.
  static Result<std::unique_ptr<Transport>> create(std::vector<Device> devices,
                                                   TransportOptions options);

  const std::vector<Device>& devices() const { return devices_; }
  const TransportOptions& options() const { return *options_; }

  Result<std::unique_ptr<Listener>> listen(int device);
  // Null: call again with the same handle buffer, which keeps the place (handle->connect_ticket).
  Result<std::unique_ptr<SendComm>> connect(int device, wire::Handle* handle);

  // Registers memory for the comms of all devices.
  Registrar& registrar() { return *registrar_; }

 private:
  Transport() = default;
  Result<Connector*> find_or_start(int device, wire::Handle* handle);
  std::shared_ptr<const TransportOptions> options_;
  std::vector<Device> devices_;
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<Registrar> registrar_;
  std::mutex mutex_;                                           // guards connectors_
  std::map<uint64_t, std::unique_ptr<Connector>> connectors_;  // by ticket
};

// False: the comm has failed, *error says how. *done 0: not yet. When done, the request is free
// again and sizes (may be null) holds the bytes of each buffer.
bool test(Request* request, int* done, int* sizes, Code* error);

}  // namespace gdr::transport
