// What a receiver answers to a connector: replies, other frames and bytes, over one connection
// after the other.
#include "tests/fuzz/socket_peer.h"

namespace gdr::fuzz {
namespace {

namespace wire = transport::wire;

// The steps of a script, behind the form of the bed.
enum ReplyStep : uint8_t {
  kAccept,     // the connection that the connector has made
  kSendBytes,  // counted
  kSendFrame,  // kind, then a counted body
  kSendReply,  // patches of a frame that is valid
  kStopSending,
  kBreak,
  kWait,  // so many tenths of a second
  kReplySteps,
};

struct ConnectorRun {
  static constexpr int kMaxSteps = 24;

  explicit ConnectorRun(uint8_t form) : bed(form) {}

  FuzzBed bed;
  transport::RawReceiver raw;
  // Whose end the valid reply names.
  std::unique_ptr<transport::ReceiveComm> receiver = bed.make_receiver().value();
  fake_verbs::LiveObjects before = bed.verbs.live();
  std::unique_ptr<transport::Connector> connector = bed.make_connector(raw.handle()).value();
  UniqueFd peer;

  void step(Input& input) {
    switch (input.below(kReplySteps)) {
      case kAccept:
        if (auto fd = transport::accept_tcp(raw.socket.fd.get()); fd && fd->has_value()) {
          peer = std::move(**fd);
          reset_when_closed(peer.get());
        }
        return;
      case kSendBytes:
        return send_bytes(peer.get(), input.counted());
      case kSendFrame: {
        const uint8_t kind = input.byte();
        return send_bytes(peer.get(), frame_of(kind, input.counted()));
      }
      case kSendReply: {
        EndPointFrame frame =
            end_point_frame(wire::FrameKind::kReply, transport::end_of(*receiver));
        input.patch(&frame);
        return send_bytes(peer.get(), frame);
      }
      case kStopSending:
        (void)shutdown(peer.get(), SHUT_WR);
        return;
      case kBreak:
        return peer.reset();
      default:
        return bed.skip(std::chrono::milliseconds(100 * input.byte()));
    }
  }

  // Returns whether the connector is to be called again.
  bool connect() {
    auto comm = connector->step();
    if (!comm) check_text(comm.error().text);
    if (comm && *comm != nullptr) (void)(*comm)->progress();
    return comm && *comm == nullptr;
  }
};

}  // namespace

void run_reply(Input input) {
  ConnectorRun run(input.byte());
  bool goes_on = run.connect();
  for (int i = 0; i < ConnectorRun::kMaxSteps && !input.empty() && goes_on; ++i) {
    run.step(input);
    goes_on = run.connect();
  }
  run.peer.reset();
  run.connector.reset();
  check(run.bed.verbs.live() == run.before, "a connector that is gone has left objects of verbs");
}

}  // namespace gdr::fuzz
