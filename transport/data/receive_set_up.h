// How the receiving end of a connection is made and connected.
#pragma once

#include <cerrno>
#include <cstdint>
#include <vector>

#include "transport/data/connection.h"
#include "transport/data/connection_set_up.h"
#include "transport/data/flush.h"
#include "transport/pairs/rail_tables.h"

namespace gdr::transport {

// Ends when the comm's data path begins.
class ReceiveSetUp {
 public:
  static constexpr int kReceives = 32;  // grouped receives in flight

  // All outlive it.
  ReceiveSetUp(Connection& connection, RailTables& tables, Flushes& flushes)
      : connection_(connection), tables_(tables), flushes_(flushes), set_up_(connection.end()) {}

  // Creates this end, for the pairs of the sender's kHello.
  Status make(const EndRails& rails, const wire::EndPoint& sender);
  // Takes the sender's kHello, connects the QPs and posts their receives. Returns whether that is
  // done, so that data may arrive; false: call connect_step() until it returns true.
  Result<bool> connect(const wire::EndPoint& sender);
  Result<bool> connect_step();
  // ConnectionSetUp::give_up_standby(), before keep_link().
  bool give_up_standby(const HcaContext* hca) { return set_up_.give_up_standby(hca, ENOMEM); }

  // Makes the connection's Recovery, and hands the socket of the handshake to Connection.
  void keep_link(FrameChannel channel, bool direct);

 private:
  Status create_flushes();
  void post_all_receives();
  Status exclude_pairs_without_receives();

  struct ShortQueue {
    uint32_t pair;
    int posted;  // receives
  };

  Connection& connection_;
  RailTables& tables_;
  Flushes& flushes_;
  ConnectionSetUp set_up_;
  int receives_each_ = 0;                 // posted on each QP
  bool receives_posted_ = false;          // on all QPs
  std::vector<ShortQueue> short_queues_;  // pairs whose QP did not take all receives
};

}  // namespace gdr::transport
