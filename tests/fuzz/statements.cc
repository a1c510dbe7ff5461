// Statements about a pair, which the other end sends as frames and writes into this end's tables.
// Two real ends exchange theirs, and what arrives may be changed on its way. Until it is, what each
// end concludes is compared with the other end itself.
#include <cstdlib>

#include "tests/fuzz/target.h"
#include "transport/data/pair_agreement.h"

namespace gdr::fuzz {
namespace {

namespace wire = transport::wire;
using transport::PairAction;
using transport::PairAgreement;
using transport::PairEnd;

// Each step begins with its number and the end that it concerns.
enum StatementStep : uint8_t {
  kLose,
  kStop,
  kCount,  // all arrivals of the epoch; the receiver only
  kFinishRecovery,
  kAct,  // what next() asks for; 1: it fails
  kSetPort,
  kEndProbe,       // an ibv_wc_status
  kState,          // the statement reaches the other end
  kStateChanged,   // with patches
  kStateRelative,  // step, seen and arrived that differ from the end's own by so much
  kWriteEntry,     // counted bytes over the other end's table entry, which it then reads
  kPassTime,       // so many seconds
  kStatementSteps,
};

struct End {
  PairAgreement agreement;
  wire::PairStatement entry{};  // in the tables, written by the other end
};

struct AgreementRun {
  static constexpr int kMaxSteps = 128;

  End ends[2] = {{PairAgreement(PairEnd::kSender, 3)}, {PairAgreement(PairEnd::kReceiver, 3)}};
  PairAgreement::Time now{};
  bool changed = false;  // a statement was not what its end has stated

  void step(Input& input) {
    const uint8_t what = input.below(kStatementSteps);
    const uint8_t index = input.below(2);
    PairAgreement& own = ends[index].agreement;
    End& other = ends[1 - index];
    switch (what) {
      case kLose:
        return own.on_failure({wire::PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR});
      case kStop:
        return own.on_stopped(now);
      case kCount:
        if (index == 1) own.on_counted(arrivals_of(own.epoch()), now);
        return;
      case kFinishRecovery:
        return own.on_data_path_done();
      case kAct:
        return act(own, input.byte() == 1);
      case kSetPort:
        return own.set_port_active(input.byte() != 0);
      case kEndProbe:
        return own.on_probe_completed(static_cast<ibv_wc_status>(input.below(24)), now);
      case kPassTime:
        now += std::chrono::seconds(input.byte());
        return;
      default:
        return state(what, input, own, other);
    }
  }

  static uint64_t arrivals_of(uint32_t epoch) { return 17 + 3 * uint64_t{epoch}; }

  void act(PairAgreement& end, bool fails) const {
    switch (end.next(now)) {
      case PairAction::kStop:
        return end.on_stopped(now);
      case PairAction::kRevive:
        return fails ? end.on_revival_failed(now) : end.on_revived(now);
      case PairAction::kProbe:
        return end.on_probe_posted();
      case PairAction::kNone:
        return;
    }
  }

  void state(uint8_t what, Input& input, PairAgreement& own, End& other) {
    wire::PairStatement statement = own.make_statement();
    check(wire::is_known(statement), "an end makes a statement that no end knows");
    changed |= what != kState;
    if (what == kStateChanged) input.patch(&statement);
    if (what == kStateRelative) {
      statement.step += static_cast<int8_t>(input.byte());
      statement.seen += static_cast<int8_t>(input.byte());
      statement.arrived += static_cast<int8_t>(input.byte());
    }
    other.entry = statement;
    if (what == kWriteEntry) {
      const std::span<const uint8_t> bytes = input.counted();
      std::memcpy(&other.entry, bytes.data(), std::min(bytes.size(), sizeof(other.entry)));
    }
    const std::optional<wire::PairStatement> read = transport::read_statement(other.entry);
    if (read) deliver(*read, other.agreement);
  }

  void deliver(const wire::PairStatement& statement, PairAgreement& to) const {
    const uint32_t step_before = to.step();
    const uint32_t peer_before = to.peer_step();
    if (Status status = to.on_statement(statement, now); !status) {
      check(changed, "an end refuses what an honest one states");
      check_text(status.error().text);
      check(to.step() == step_before && to.peer_step() == peer_before,
            "a statement that is refused has an effect");
    }
    check_text(to_string(to.peer_cause()));
  }

  void check_ends() const {
    for (int i : {0, 1}) {
      const PairAgreement& end = ends[i].agreement;
      const PairAgreement& other = ends[1 - i].agreement;
      const int64_t apart = int64_t{end.step()} - int64_t{end.peer_step()};
      check(std::abs(apart) <= 1, "an end goes on although the other one does not follow");
      if (changed) continue;
      const int64_t ahead = int64_t{other.step()} - int64_t{end.step()};
      check(std::abs(ahead) <= 1, "the steps of the two ends are more than one apart");
      check(!end.usable() || ahead >= 0, "a pair is used that is not ready at the other end");
      check(!end.recovered() || ahead >= 0, "a pair counts as down that is up at the other end");
      check(i == 1 || !end.recovered() || end.peer_arrived() == arrivals_of(end.epoch()),
            "the sender has a wrong count of what arrived");
    }
  }
};

}  // namespace

void run_statements(Input input) {
  AgreementRun run;
  for (int i = 0; i < AgreementRun::kMaxSteps && !input.empty(); ++i) {
    run.step(input);
    run.check_ends();
  }
}

Seeds statements_seeds() {
  auto step = [](int what, int end) { return Script().bytes({what, end}); };
  auto lose_at = [&](int end) { return step(kLose, end).add(step(kStop, end)); };
  const auto count = step(kCount, 1);
  const auto exchange =
      step(kState, 0).add(step(kState, 1)).add(step(kState, 0)).add(step(kState, 1));
  const auto down = lose_at(0).add(step(kState, 0)).add(step(kStop, 1)).add(count).add(exchange);
  const auto revive = [&](int end) {
    return step(kFinishRecovery, end)
        .add(step(kPassTime, end))
        .bytes({2})
        .add(step(kAct, end))
        .bytes({0});
  };
  const auto ready = Script().add(down).add(revive(0)).add(revive(1)).add(exchange);
  const auto probe = [&](int end, int status) {
    return step(kAct, end).bytes({0}).add(step(kEndProbe, end)).bytes({status});
  };
  wire::PairStatement torn{};
  torn.serial_first = 2;
  torn.serial_last = 1;
  torn.pair = 3;
  return {
      {"down", down},
      {"down-at-the-receiver",
       lose_at(1).add(count).add(exchange).add(step(kStop, 0)).add(exchange)},
      {"ready-again", Script().add(ready).add(probe(0, 0)).add(probe(1, 0))},
      {"probe-fails", Script().add(ready).add(probe(0, 12)).add(exchange)},
      {"twice", Script().add(ready).add(probe(0, 0)).add(probe(1, 0)).add(down)},
      {"revival-fails", Script()
                            .add(down)
                            .add(step(kFinishRecovery, 0))
                            .add(step(kPassTime, 0))
                            .bytes({2})
                            .add(step(kAct, 0))
                            .bytes({1})
                            .add(exchange)},
      {"port-down", Script().add(down).add(step(kSetPort, 0)).bytes({0}).add(revive(0))},
      {"other-count", Script().add(down).add(step(kStateRelative, 1)).bytes({0, 0, 1})},
      {"step-ahead", Script().add(down).add(step(kStateRelative, 1)).bytes({2, 0, 0})},
      {"step-back", Script().add(down).add(step(kStateRelative, 1)).bytes({-1, 0, 0})},
      {"seen-ahead", step(kStateRelative, 0).bytes({0, 1, 0})},
      {"sender-counts", step(kStateRelative, 0).bytes({0, 0, 1})},
      {"torn", step(kWriteEntry, 1).counted(&torn, sizeof(torn))},
      {"asks", step(kStateChanged, 0)
                   .patch(offsetof(wire::PairStatement, flags), uint8_t{1})
                   .add(exchange)},
      {"unknown-status",
       step(kStateChanged, 0).patch(offsetof(wire::PairStatement, status), uint8_t{200})},
      {"old-serial", Script()
                         .add(down)
                         .add(step(kStateChanged, 0))
                         .patch(offsetof(wire::PairStatement, serial_first), uint32_t{1})},
  };
}

}  // namespace gdr::fuzz
