// How the receiving end of a connection is made and connected.
#pragma once

#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "transport/data/connection.h"
#include "transport/data/connection_set_up.h"
#include "transport/data/flush.h"
#include "transport/data/spread_flushes.h"
#include "transport/pairs/rail_tables.h"

namespace gdr::transport {

// Ends when the comm's data path begins.
class ReceiveSetUp {
 public:
  static constexpr int kReceives = 32;                       // grouped receives in flight
  static constexpr int kFlushes = SpreadFlushes::kRequests;  // flushes in flight

  // Both outlive it.
  ReceiveSetUp(Connection& connection, RailTables& tables)
      : connection_(connection), tables_(tables), set_up_(connection.end()) {}
  // Destroys the QPs of the flushes that were not taken.
  ~ReceiveSetUp();

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
  // Of the rails whose HCA may register GPU memory.
  std::vector<Flush> take_flushes() { return std::exchange(flush_, {}); }
  ServiceClass of_sender() const { return of_sender_; }  // which the data and the flush have

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
  ConnectionSetUp set_up_;
  ServiceClass of_sender_;
  std::vector<Flush> flush_;
  int receives_each_ = 0;                 // posted on each QP
  bool receives_posted_ = false;          // on all QPs
  std::vector<ShortQueue> short_queues_;  // pairs whose QP did not take all receives
};

}  // namespace gdr::transport
