// What a peer sends on the socket of the handshake after it: frames, bytes and the end.
#include <sys/socket.h>

#include "tests/fuzz/socket_peer.h"
#include "transport/link/peer_link.h"

namespace gdr::fuzz {
namespace {

namespace wire = transport::wire;
using transport::FrameChannel;
using transport::PeerLink;

enum LinkStep : uint8_t {
  kRawBytes,   // counted
  kAnyFrame,   // kind, then a counted body
  kPairFrame,  // patches of a valid body
  kTick,       // after so many tenths of a second
  kQuery,      // this end asks for the peer's state
  kFailHere,   // this end fails
  kProbeEnds,
  kPeerEnds,
  kStateHere,  // this end states a pair
  kLinkSteps,
};

struct LinkRun {
  static constexpr int kMaxSteps = 64;

  const bool recovers_pairs;
  std::array<UniqueFd, 2> sockets = transport::local_socket_pair();
  FrameChannel far{std::move(sockets[1])};
  std::shared_ptr<PeerLink> link = std::make_shared<PeerLink>(
      FrameChannel(std::move(sockets[0])), "this end <-> the peer", "sender", options());
  PeerLink::Clock::time_point now = PeerLink::Clock::now();
  bool readable = true;

  // recovers: the connection takes statements about pairs.
  explicit LinkRun(bool recovers) : recovers_pairs(recovers) {}

  transport::PeerLinkOptions options() const {
    transport::PeerLinkOptions options{.peer = {"host", 1}};
    if (recovers_pairs) {
      options.on_statement = [](const wire::PairStatement& statement) {
        check(wire::is_known(statement), "the link passes a statement on that no end knows");
      };
    }
    return options;
  }

  void step(Input& input) {
    switch (input.below(kLinkSteps)) {
      case kRawBytes:
        return send_bytes(far.fd(), input.counted());
      case kAnyFrame: {
        const uint8_t kind = input.byte();
        return send_bytes(far.fd(), frame_of(kind, input.counted()));
      }
      case kPairFrame:
        return send_patched(input, wire::FrameKind::kPair, first_statement());
      case kTick:
        now += std::chrono::milliseconds(100 * input.byte());
        return void(link->on_tick(now));
      case kQuery:
        return link->query_peer();
      case kFailHere:
        return link->fail_link(Error{Code::kRemote, "a work request failed"}, true);
      case kProbeEnds:
        return link->end_probe();
      case kStateHere:
        return link->send_statement(first_statement());
      default:
        (void)shutdown(far.fd(), SHUT_WR);
    }
  }

  static wire::PairStatement first_statement() {
    wire::PairStatement statement{};
    statement.serial_first = statement.serial_last = 1;
    statement.step = 1;
    return statement;
  }

  template <class Body>
  void send_patched(Input& input, wire::FrameKind kind, Body body) {
    input.patch(&body);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&body);
    send_bytes(far.fd(), frame_of(static_cast<uint8_t>(kind), {bytes, sizeof(body)}));
  }

  // What this end sends is valid, whatever the peer sends.
  void read_answers() {
    for (;;) {
      auto frame = far.receive();
      check(frame.has_value(), "the link sends what is no frame");
      if (!frame->has_value()) return;
      if ((*frame)->kind == wire::FrameKind::kPair) {
        check((*frame)->pair_statement().has_value(), "the link sends a kPair that is not valid");
      }
    }
  }
};

}  // namespace

void run_kept_socket(Input input) {
  LinkRun run(input.byte() == 1);
  for (int i = 0; i < LinkRun::kMaxSteps && !input.empty(); ++i) {
    run.step(input);
    if (run.readable) run.readable = run.link->on_readable(run.now);
    run.read_answers();
    check_text(run.link->failure().text);
    check_text(run.link->state_text());
    check(!run.link->failed() || !run.link->failure().text.empty(), "a failure has no text");
  }
  if (!run.readable) {
    run.link->on_tick(run.now + std::chrono::seconds(60));
    check(run.link->failed() || run.link->deaf() || run.link->peer_left(),
          "the end of the socket has no consequence");
  }
}

}  // namespace gdr::fuzz
