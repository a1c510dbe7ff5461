// Statements about a pair, which the other end sends as frames and writes into this end's tables.
// Two real ends exchange theirs, and what arrives may be changed on its way. Until it is, what each
// end concludes is compared with the other end itself.
#include <cstdlib>

#include "tests/fuzz/target.h"
#include "transport/recovery/pair_agreement.h"
#include "transport/recovery/recovery_text.h"

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
        return own.returns().set_port_active(input.byte() != 0);
      case kEndProbe:
        if (own.epoch() == other.agreement.epoch()) other.agreement.returns().on_peer_probed();
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
        return fails ? end.returns().on_failed(now) : end.on_revived();
      case PairAction::kProbe:
        return end.returns().on_probe_posted();
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
    const uint32_t peer_before = to.peer().step;
    if (Status status = to.on_statement(statement, now); !status) {
      check(changed, "an end refuses what an honest one states");
      check_text(status.error().text);
      check(to.step() == step_before && to.peer().step == peer_before,
            "a statement that is refused has an effect");
    }
    check_text(to_string(to.peer().cause));
  }

  void check_ends() const {
    for (int i : {0, 1}) {
      const PairAgreement& end = ends[i].agreement;
      const PairAgreement& other = ends[1 - i].agreement;
      const int64_t apart = int64_t{end.step()} - int64_t{end.peer().step};
      check(std::abs(apart) <= 1, "an end goes on although the other one does not follow");
      if (changed) continue;
      const int64_t ahead = int64_t{other.step()} - int64_t{end.step()};
      check(std::abs(ahead) <= 1, "the steps of the two ends are more than one apart");
      check(!end.usable() || ahead >= 0, "a pair is used that is not ready at the other end");
      check(!end.recovered() || ahead >= 0, "a pair counts as down that is up at the other end");
      check(i == 1 || !end.recovered() || end.peer().arrived == arrivals_of(end.epoch()),
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

}  // namespace gdr::fuzz
