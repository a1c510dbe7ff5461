// A sender and a receiver with several rails, over a fake fabric and with the watcher's thread.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {

// Fills a buffer such that each position differs from its neighbours.
inline void fill(Buffer& buffer) {
  for (size_t i = 0; i < buffer.bytes.size(); ++i) {
    buffer.bytes[i] = static_cast<char>((i * 2654435761u) >> 24);
  }
}

// What the HCAs of a RailsBed are like.
struct RailHcas {
  uint32_t max_msg_sz = 1u << 30;
  std::vector<std::string> broken = {};  // names: no completion queue can be created on these
  bool roce = false;                     // else InfiniBand
  int more_receivers = 0;                // active rails that only the receiver has
  // The ECE options that the HCAs of each end know.
  std::optional<uint32_t> ece_of_senders = {}, ece_of_receivers = {};
};

// Rails of which rail i is between "fake_s<i>" and "fake_r<i>", and the ends of a connection over
// them, which a test creates and connects step by step.
struct RailsBed : Ends {
  explicit RailsBed(int active, int standby = 0, const TransportOptions& with = test_options(),
                    const RailHcas& hcas = {})
      : Ends(with), hcas_(hcas) {
    for (int i = 0; i < active + standby; ++i) {
      const auto number = static_cast<uint16_t>(10 + 2 * i);
      const Device here = open_port(name('s', i), number);
      const Device there = open_port(name('r', i), static_cast<uint16_t>(number + 1));
      (i < active ? sender_rails.active : sender_rails.standby).push_back(here);
      (i < active ? receiver_rails.active : receiver_rails.standby).push_back(there);
    }
    for (int i = active + standby; i < active + standby + hcas.more_receivers; ++i) {
      const auto number = static_cast<uint16_t>(11 + 2 * i);
      receiver_rails.active.push_back(open_port(name('r', i), number));
    }
  }

  ListenerRails listener_rails() const {
    return {receiver_rails.active.size(), receiver_rails.standby.size()};
  }
  // there: the rails that the receiver has announced.
  void create_sender(const ListenerRails& there) {
    sender =
        SendComm::create(sender_rails, shared(options.connection), watcher.get(), there).value();
  }
  void create_sender() { create_sender(listener_rails()); }
  void create_receiver() {
    receiver = ReceiveComm::create(receiver_rails, shared(options.connection), watcher.get(),
                                   end_of(*sender))
                   .value();
  }
  void connect() {
    ASSERT_TRUE(receiver->connect(end_of(*sender)).value());
    ASSERT_TRUE(sender->connect(end_of(*receiver)).value());
  }
  void keep_links(std::array<UniqueFd, 2> sockets = local_socket_pair()) {
    sender->keep_link(FrameChannel(std::move(sockets[0])));
    receiver->keep_link(FrameChannel(std::move(sockets[1])));
  }
  void make(std::array<UniqueFd, 2> sockets = local_socket_pair()) {
    create_sender();
    create_receiver();
    connect();
    keep_links(std::move(sockets));
  }

  static std::string name(char end, int rail) {
    return std::string("fake_") + end + std::to_string(rail);
  }
  Device open_port(const std::string& hca, uint16_t number) {
    using fake_verbs::HcaConfig;
    HcaConfig config = hcas_.roce ? HcaConfig::roce(hca, static_cast<uint8_t>(number))
                                  : HcaConfig::infiniband(hca, number);
    config.ports[0].max_msg_sz = hcas_.max_msg_sz;
    if (std::ranges::find(hcas_.broken, hca) != hcas_.broken.end()) config.max_cq_entries = 1;
    config.ece_options = hca.starts_with("fake_s") ? hcas_.ece_of_senders : hcas_.ece_of_receivers;
    return open(verbs.add_hca(config));
  }
  // The port fails, or comes back, and its HCA reports that.
  void set_port(char end, int rail, bool active) {
    verbs.port(name(end, rail), 1).active = active;
    verbs.raise_event(name(end, rail), active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, nullptr,
                      1);
  }

  // Calls isend until the clear-to-send is there.
  Request* isend_soon(Buffer& buffer, int tag = 0) {
    Request* request = nullptr;
    (void)wait_for([&] {
      (void)receiver->progress();
      return (request = isend(buffer, tag)) != nullptr || sender->connection().failed();
    });
    return request;
  }
  // Tests both requests, as two ranks would, until they are done or either end has failed.
  bool finish_both(Request* send, Request* receive) {
    Outcome sent, received;
    (void)wait_for([&] {
      if (!sent.done && sent.alive) sent = test_once(send);
      if (!received.done && received.alive) received = test_once(receive);
      return (sent.done && received.done) || !sent.alive || !received.alive;
    });
    return sent.done && received.done;
  }
  // Calls progress of both ends until `ready` returns true.
  bool poll_until(const std::function<bool()>& ready) {
    return wait_for([&] {
      (void)sender->progress();
      (void)receiver->progress();
      return ready();
    });
  }
  // Polls both ends until a rail has returned at one of them.
  template <class Comm>
  bool returns(Comm& comm, uint32_t rail) {
    return poll_until([&] { return recovery_of(comm).counters(rail).returns.load() == 1; });
  }
  // The sender's port of rail 0 fails, and both ends know it.
  void lose_first_rail() {
    set_port('s', 0, false);
    EXPECT_TRUE(poll_until([&] {
      return contains(recovery_of(*sender).state_text(), "fake_s0") &&
             contains(recovery_of(*receiver).state_text(), "fake_r0");
    }));
  }
  // Sends a message of each size, and compares what arrives.
  void exchange(const std::vector<size_t>& sizes) {
    for (size_t bytes : sizes) {
      Buffer from = sender_buffer(bytes);
      Buffer to = receiver_buffer(bytes);
      fill(from);
      Request* receive = nullptr;  // while the receiver replaces the pair of clear-to-send
      ASSERT_TRUE(poll_until([&] { return (receive = irecv(to)) != nullptr; })) << bytes;
      Request* send = isend_soon(from);
      ASSERT_NE(send, nullptr) << bytes;
      ASSERT_TRUE(finish_both(send, receive))
          << bytes << ": " << failure_of(*sender).text << failure_of(*receiver).text;
      EXPECT_EQ(from.bytes, to.bytes) << bytes;
    }
  }

  template <class Comm>
  Recovery& recovery_of(Comm& comm) {
    return *comm.connection().recovery();
  }
  // How many work requests of the kind a rail's QPs of one end have posted.
  template <class Comm>
  size_t posted_on(Comm& comm, uint32_t rail, WorkKind kind) {
    size_t count = 0;
    const RailSet& rails = comm.connection().rails();
    for (const fake_verbs::Posted& work : verbs.posted()) {
      for (size_t i = 0; i < rails.pair_count(); ++i) {
        const QueuePair& pair = rails.pair(i);
        count += pair.rail == rail && pair.number == work.qp_num &&
                 decode_work_id(work.wr_id).kind == kind;
      }
    }
    return count;
  }

  // How many reads have been posted, which flushes are.
  size_t reads() const {
    const auto posted = verbs.posted();
    return static_cast<size_t>(
        std::ranges::count(posted, IBV_WR_RDMA_READ, &fake_verbs::Posted::opcode));
  }

  EndRails sender_rails;
  EndRails receiver_rails;

 private:
  RailHcas hcas_;
};

// The connection is there.
struct RailsPair : RailsBed {
  explicit RailsPair(int active, int standby = 0, const TransportOptions& with = test_options(),
                     std::array<UniqueFd, 2> sockets = local_socket_pair(),
                     const RailHcas& hcas = {})
      : RailsBed(active, standby, with, hcas) {
    make(std::move(sockets));
    verbs.forget_posted();
  }
};

}  // namespace gdr::transport
