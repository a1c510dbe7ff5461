// Both ends of the recovery of a connection in one process, without data paths and without a
// watcher: a test plays both, and nothing happens by itself.
#pragma once

#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/transport/comm_pair.h"
#include "transport/data/connection.h"
#include "transport/data/connection_set_up.h"
#include "transport/pairs/rail_set.h"
#include "transport/recovery/recovery.h"

namespace gdr::transport {

// What had to be logged of rails: losses, those that the end that gave the rail up has explained,
// and returns.
struct RecordedRails final : RailLog {
  RecordedRails() : RailLog(none) {}
  void lost(const RailLoss& loss) override {
    const bool is_explained = loss.effect == LossEffect::kExplained;
    (is_explained ? explained : losses).push_back(lost_rail_text(loss));
  }
  void returned(const std::string& port, const std::string& peer) override {
    returns.push_back(port + " <-> " + peer);
  }
  void stays_lost(const std::string&, const std::string& peer, const Error& reason) override {
    stays.push_back(peer + ": " + reason.text);
  }

  Episodes none;
  std::vector<std::string> losses, explained, returns, stays;
};

// The recovery of one end, with what it needs.
struct RecoveringEnd {
  static constexpr int kReceives = RailSet::kReceiveBatch;

  RecoveringEnd(Fabric& fabric, PairEnd which)
      : options(shared(fabric.options.connection)),
        end(which),
        connection(options, fabric.watcher.get(), which == PairEnd::kSender) {
    connection.end().offers_recovery = true;
  }

  void add(const EndRails& rails, const PairPlan& plan) {
    RailSpec spec;
    spec.depths = QueueDepths{16, kReceives, 0};
    tables.emplace(set_up.add_rails(rails, plan, spec).value());
    EXPECT_TRUE(set_up.change_states().value());
  }
  wire::EndPoint described() const { return connection.end().point(kSecret, *tables); }
  void connect(const wire::EndPoint& peer) {
    ASSERT_TRUE(set_up.accept_peer(peer));
    set_up.begin_connecting();
    ASSERT_TRUE(set_up.change_states().value());
    for (uint32_t i = 0; i < connection.rails().pair_count(); ++i) {
      const uint64_t id = encode(WorkId{WorkKind::kReceive, i, 0, 0});
      EXPECT_EQ(connection.rails().post_receives(i, kReceives, id), kReceives);
    }
  }
  void begin(UniqueFd socket, const std::vector<uint32_t>& not_connected = {}) {
    PairSetUp of_pairs{.end = end,
                       .rails = &connection.rails(),
                       .tables = &*tables,
                       .peer = &connection.peer(),
                       .options = options,
                       .service = {},
                       .first_psn = described().first_psn,
                       .receives = kReceives,
                       .before_receiving = [this](size_t) { return while_reviving; },
                       .unreachable = &unreachable,
                       .host = described().host};
    recovery.emplace(PairIo(std::move(of_pairs)), true,
                     RecoveryHooks{[this] { ++wakes; }, &logged});
    PeerLinkOptions link_options;
    link_options.on_statement = [this](const wire::PairStatement& statement) {
      if (socket_works) recovery->steps().on_statement(statement);
    };
    link = std::make_shared<PeerLink>(FrameChannel(std::move(socket)), "a <-> b",
                                      end == PairEnd::kSender ? "sender" : "receiver",
                                      std::move(link_options));
    std::vector<LostAtStart> lost;
    for (uint32_t pair : not_connected) lost.push_back({pair, {wire::PairReason::kNotConnected}});
    recovery->begin(link, lost);
  }

  ibv_qp* qp(uint32_t pair) { return connection.rails().pair(pair).qp.get(); }
  // Polls the CQs as a data path does. Returns the successes of receives, by their WorkId.
  std::vector<WorkId> poll(uint32_t rails = 2) {
    std::vector<WorkId> arrived;
    for (uint32_t rail = 0; rail < rails; ++rail) {
      const uint32_t awaited = recovery->queues().awaited_empty();
      ibv_wc wc;
      while (ibv_poll_cq(connection.rails()[rail].cq(), 1, &wc) > 0) {
        const WorkId id = decode_work_id(wc.wr_id);
        if (wc.status != IBV_WC_SUCCESS) {
          recovery->on_failed_work(id, wc.status);
        } else if (id.kind == WorkKind::kReceive) {
          EXPECT_TRUE(recovery->arrivals(id.pair).count_one(id.epoch));
          arrived.push_back(id);
        } else {
          recovery->on_written(id);
        }
      }
      if (awaited != 0) recovery->on_empty_queue(rail, awaited);
    }
    return arrived;
  }
  std::vector<PairNews> news(size_t most = SIZE_MAX) {
    std::vector<PairNews> all;
    while (all.size() < most) {
      const auto one = recovery->next_news();
      if (!one) break;
      all.push_back(*one);
    }
    return all;
  }
  // What a data path does that has nothing to move.
  void follow_news(size_t most = SIZE_MAX) {
    for (const PairNews& one : news(most)) {
      seen.push_back(one);
      if (one.kind == PairNews::Kind::kAgreed) recovery->finish(one.pair);
    }
  }
  bool has_seen(PairNews::Kind kind, uint32_t pair) const {
    return std::ranges::any_of(
        seen, [&](const PairNews& one) { return one.kind == kind && one.pair == pair; });
  }

  std::shared_ptr<const ConnectionOptions> options;
  PairEnd end;
  Connection connection;
  ConnectionSetUp set_up{connection.end()};
  std::optional<RailTables> tables;
  UnreachablePaths unreachable;
  std::optional<Recovery> recovery;
  std::shared_ptr<PeerLink> link;
  bool socket_works = true;
  std::function<Status()> while_reviving;  // called before a QP goes to RTR again; may be empty
  int wakes = 0;
  RecordedRails logged;
  std::vector<std::string>&losses = logged.losses, &explained = logged.explained,
  &returns = logged.returns, &stays_lost = logged.stays;
  std::vector<PairNews> seen;
};

// Two rails between "fake_a" and "fake_b", and "fake_c" and "fake_d"; a pair on each. senders: an
// HCA of two ports, which then are the sender's rails.
struct RecoveryBed : Fabric {
  explicit RecoveryBed(const std::vector<uint32_t>& not_connected = {},
                       std::optional<fake_verbs::HcaConfig> senders = {}, bool roce = false)
      : Fabric(test_options(), roce) {
    using fake_verbs::HcaConfig;
    const auto hca = [roce](const char* name, uint8_t number) {
      return roce ? HcaConfig::roce(name, number) : HcaConfig::infiniband(name, number);
    };
    Device c = open(verbs.add_hca(senders.value_or(hca("fake_c", 3))));
    const Device d = open(verbs.add_hca(hca("fake_d", 4)));
    Device first = sender_device;
    if (senders) {
      first = c;
      c.port = 2;
      c.state = query_port_state(c.hca->api(), c.hca->context(), 2).value();
    }
    sender.add({{first, c}, {}}, plan_sender_pairs(2, 0, 1, {}));
    const wire::EndPoint hello = sender.described();
    receiver.add({{receiver_device, d}, {}}, plan_receiver_pairs(2, 0, hello));
    receiver.connect(sender.described());
    sender.connect(receiver.described());
    std::array<UniqueFd, 2> sockets = local_socket_pair();
    sender.begin(std::move(sockets[0]), not_connected);
    receiver.begin(std::move(sockets[1]), not_connected);
  }
  ~RecoveryBed() {
    sender.recovery->close();
    receiver.recovery->close();
  }

  // Lets the frames of both sockets arrive, and what follows from them.
  void exchange() {
    for (int i = 0; i < 4; ++i) {
      sender.link->on_readable(now());
      receiver.link->on_readable(now());
    }
  }
  void tick() {
    for (RecoveringEnd* end : {&sender, &receiver}) tick(*end);
  }
  // With the calls that may block.
  void tick(RecoveringEnd& end) {
    const RecoverySteps::Due due = end.recovery->steps().on_tick(now());
    if (due.stops != 0) end.recovery->steps().stop_pairs(due.stops);
    if (due.revives != 0) end.recovery->steps().revive_pairs(now(), due.revives);
  }
  // Plays everything but the data paths until nothing more happens.
  void settle() {
    for (int i = 0; i < 4; ++i) {
      exchange();
      tick();
    }
  }
  // And the data paths, which poll and have nothing to move.
  void run() {
    for (int i = 0; i < 6; ++i) {
      settle();
      sender.poll();
      receiver.poll();
      sender.follow_news();
      receiver.follow_news();
    }
  }
  Clock::time_point now() const { return Clock::now() + skipped; }
  void skip(std::chrono::milliseconds time) { skipped += time; }

  // A write with immediate of no bytes from the sender over a pair.
  void send(uint32_t pair, uint32_t epoch = 0) {
    receiver.link->count_posted();  // no data arrives for which nothing is posted
    const QueuePair& over = sender.connection.rails().pair(pair);
    const RdmaWrite nothing{
        0, 0, 0, sender.connection.peer().tables_address, over.peer_tables_rkey, false};
    ASSERT_EQ(
        write_with_immediate(over, nothing, 0, encode(WorkId{WorkKind::kChunk, pair, epoch, 0})),
        0);
  }
  void fail_pair(RecoveringEnd& end, uint32_t pair, uint32_t epoch = 0,
                 ibv_wc_status status = IBV_WC_RETRY_EXC_ERR) {
    end.recovery->on_failed_work(WorkId{WorkKind::kChunk, pair, epoch, 0}, status);
  }
  void port_event(RecoveringEnd& end, uint32_t rail, ibv_event_type type) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = 1;
    const Device& device = end.connection.rails()[rail].device();
    verbs.port(device.hca->name(), 1).active = type == IBV_EVENT_PORT_ACTIVE;
    device.hca->on_event(type);
    EXPECT_TRUE(end.recovery->steps().on_event(*device.hca, event));
  }

  // Before the ends are made.
  bool has_own_clock() {
    options.connection.now = [this] { return now(); };
    return true;
  }

  std::chrono::milliseconds skipped{0};
  bool own_clock = has_own_clock();
  RecoveringEnd sender{*this, PairEnd::kSender};
  RecoveringEnd receiver{*this, PairEnd::kReceiver};
};

struct RecoveringEnds : testing::Test {
  RecoveryBed bed;
  RecoveringEnd& sender = bed.sender;
  RecoveringEnd& receiver = bed.receiver;

  // Lets a second pass, and a little more: the pause before a pair is tried again for the first
  // time.
  void skip_a_second() {
    bed.skip(std::chrono::milliseconds(1100));
    bed.run();
  }
};

}  // namespace gdr::transport
