#include "transport/transport.h"

#include <algorithm>

#include "base/random.h"
#include "transport/subnet_routing.h"
#include "transport/wire/frame_channel.h"

namespace gdr::transport {
namespace {

Status check_handle(const wire::Handle& handle) {
  if (handle.magic != wire::kMagic) {
    return fail(Code::kInvalidUsage,
                "the peer's handle is not of this plugin: its rank has fallen back to another "
                "transport, or has loaded another plugin. Fix: look for the reason in that rank's "
                "log (NCCL_DEBUG=INFO), and set NCCL_NET=GDR on every rank, so that a rank which "
                "cannot use this plugin fails by itself");
  }
  if (Status status = check_version(handle.version); !status) return status;
  const int rails = handle.active_rails + handle.standby_rails;
  const bool has_possible_rails =
      rails == 0 || (handle.active_rails > 0 && rails > 1 && rails <= wire::kMaxRails);
  const bool is_rest_zero = std::ranges::count(handle.reserved1, 0) == sizeof(handle.reserved1);
  if (!has_possible_rails || handle.ipv6 > 1 || handle.reserved0 != 0 || !is_rest_zero) {
    return fail_unknown("handle");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Transport>> Transport::create(std::vector<Device> devices,
                                                     TransportOptions options) {
  std::unique_ptr<Transport> transport(new Transport());
  transport->devices_ = std::move(devices);
  Result<std::unique_ptr<Watcher>> watcher =
      Watcher::start(std::chrono::seconds(options.watchdog_seconds), options.async_events_fail,
                     options.bind_address);
  if (!watcher) return forward_error(watcher);
  transport->watcher_ = std::move(*watcher);
  for (const Device& device : transport->devices_) transport->watcher_->add_hca(device.hca);
  transport->options_ = std::make_shared<const TransportOptions>(std::move(options));
  transport->registrar_ = std::make_unique<Registrar>(
      std::shared_ptr<const MemoryOptions>(transport->options_, &transport->options_->memory));
  transport->handshakes_ = std::make_unique<HandshakeRegistry>(
      transport->options_->connection.now,
      std::chrono::seconds(transport->options_->watchdog_seconds), transport->watcher_.get());
  return transport;
}

TransportStats Transport::stats() const {
  TransportStats stats{watcher_->sums(), registrar_->counts(), {}};
  for (const Device& device : devices_) {
    const std::string& name = device.hca->name();
    if (stats.registrations.contains(name)) {
      stats.registered_gpu_bytes[name] = device.hca->registrations().gpu_bytes();
    }
  }
  return stats;
}

HandshakeContext Transport::context(SharedConnectionOptions connection) const {
  if (connection == nullptr) connection = {options_, &options_->connection};
  return {&devices_, options_, std::move(connection), watcher_.get(), handshakes_.get()};
}

Result<std::unique_ptr<Listener>> Transport::listen(const RailChoice& rails,
                                                    SharedConnectionOptions connection) {
  return Listener::create(context(std::move(connection)), rails);
}

Result<std::unique_ptr<SendComm>> Transport::connect(const RailChoice& rails, wire::Handle* handle,
                                                     SharedConnectionOptions connection) {
  Result<Connector*> connector = find_or_start(rails, handle, std::move(connection));
  if (!connector) return forward_error(connector);
  Result<std::unique_ptr<SendComm>> comm = (*connector)->step();
  if (comm && *comm == nullptr) return comm;
  std::lock_guard lock(mutex_);
  connectors_.erase(handle->connect_ticket);
  handle->connect_ticket = 0;
  return comm;
}

Result<Connector*> Transport::find_or_start(const RailChoice& rails, wire::Handle* handle,
                                            SharedConnectionOptions connection) {
  {
    std::lock_guard lock(mutex_);
    auto it = connectors_.find(handle->connect_ticket);
    if (it != connectors_.end()) return it->second.get();
  }
  if (Status status = check_handle(*handle); !status) return forward_error(status);
  Result<std::unique_ptr<Connector>> started =
      Connector::create(context(std::move(connection)),
                        choose_rails(devices_, rails, {&handle->gid, 1}, *options_), *handle);
  if (!started) return forward_error(started);
  Connector* connector = started->get();
  std::lock_guard lock(mutex_);
  uint64_t ticket = 0;
  // Random, so that a handle from a peer cannot name a connection of this process.
  while (ticket == 0 || connectors_.contains(ticket)) {
    ticket = random_bits();
  }
  handle->connect_ticket = ticket;
  connectors_.emplace(ticket, std::move(*started));
  return connector;
}

}  // namespace gdr::transport
