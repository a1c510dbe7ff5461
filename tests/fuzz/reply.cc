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

Seeds reply_seeds() {
  const auto accept = Script().bytes({0, kAccept});  // on InfiniBand
  auto body = [](size_t field) { return sizeof(wire::FrameHeader) + field; };
  auto patched = [&](size_t offset, auto value) {
    return Script()
        .add(accept)
        .bytes({kSendReply})
        .patch(offset, value)
        .bytes({kWait, 1, kWait, 1});
  };
  return {
      {"whole", Script().add(accept).bytes({kSendReply}).no_patch().bytes({kWait, 0, kWait, 0})},
      {"over-roce", Script().bytes({kRoce, kAccept, kSendReply}).no_patch().bytes({kWait, 0})},
      {"refuses", Script()
                      .add(accept)
                      .bytes({kSendFrame, int(wire::FrameKind::kRefuse)})
                      .counted("no\x01 room")},
      {"unexpected",
       Script().add(accept).bytes({kSendFrame, int(wire::FrameKind::kReady)}).counted("")},
      {"other-protocol",
       Script().add(accept).bytes({kSendBytes}).counted("220 ready\r\n          ")},
      {"other-version", patched(offsetof(wire::FrameHeader, version), uint16_t{4})},
      {"wrong-secret", patched(body(0), uint64_t{1})},
      {"other-qps", patched(body(offsetof(wire::EndPoint, qps)), uint16_t{2})},
      {"impossible-qp", patched(body(offsetof(wire::EndPoint, qp)), uint32_t{1u << 24})},
      {"roce", patched(body(offsetof(wire::EndPoint, rail) + offsetof(wire::RailAddress, ethernet)),
                       uint8_t{1})},
      {"long-name", patched(body(offsetof(wire::EndPoint, host) + 56), ~uint64_t{0})},
      {"breaks", Script()
                     .add(accept)
                     .bytes({kBreak, kWait, 9, kWait, 9, kAccept, kSendReply})
                     .no_patch()
                     .bytes({kWait, 0})},
      {"ends", Script().add(accept).bytes({kStopSending, kWait, 9, kWait, 9})},
      {"partial", Script().add(accept).bytes({kSendBytes}).counted("GDRG").bytes({kBreak})},
  };
}

}  // namespace gdr::fuzz
