// What peers send to a listener: bytes before the secret, hellos that carry it, and frames behind
// them, over several connections. Whatever it is, the listener then serves a sender that knows the
// secret.
#include <array>

#include "tests/fuzz/socket_peer.h"

namespace gdr::fuzz {
namespace {

using namespace std::chrono_literals;
namespace wire = transport::wire;

constexpr uint8_t kPeers = 4;

// The steps of a script, behind the form of the bed. Each begins with its number and, but for
// kPass, that of the peer.
enum HelloStep : uint8_t {
  kConnect,
  kBytes,      // counted
  kFrame,      // kind, then a counted body
  kHello,      // QPs and rails beside the first, then patches of a frame that is valid
  kBeginning,  // a hello's header and secret, then counted bytes
  kEnd,        // the peer sends nothing more
  kReset,
  kPass,  // so many seconds
  kSteps,
};

struct ListenerRun {
  static constexpr int kMaxSteps = 24;

  explicit ListenerRun(uint8_t form) : bed(form) {}

  FuzzBed bed;
  std::unique_ptr<transport::Listener> listener = bed.make_listener().value();
  wire::Handle handle = transport::handle_of(*listener);
  std::unique_ptr<transport::SendComm> sender = bed.make_sender().value();
  std::array<UniqueFd, kPeers> peers;
  int hellos = 0;  // that may have been valid

  void step(Input& input) {
    const uint8_t what = input.below(kSteps);
    if (what == kPass) return bed.skip(std::chrono::seconds(input.byte()));
    UniqueFd& peer = peers[input.below(kPeers)];
    if (what == kConnect) peer = connect_peer(handle);
    if (what == kBytes) send_bytes(peer.get(), input.counted());
    if (what == kFrame) {
      const uint8_t kind = input.byte();
      send_bytes(peer.get(), frame_of(kind, input.counted()));
    }
    if (what == kHello) send_hello(input, peer);
    if (what == kBeginning) {
      const EndPointFrame frame = valid_hello(0, 0);
      send_bytes(peer.get(),
                 std::span(frame).first(sizeof(wire::FrameHeader) + sizeof(wire::Secret)));
      send_bytes(peer.get(), input.counted());
      ++hellos;
    }
    if (what == kEnd) (void)shutdown(peer.get(), SHUT_WR);
    if (what == kReset) peer.reset();
  }

  EndPointFrame valid_hello(uint8_t more_qps, uint8_t more_rails) const {
    wire::EndPoint end = sender->end_point(handle.secret);
    end.rails += more_rails;
    end.qps += more_qps;
    std::fill_n(end.rail.begin(), end.rails, end.rail[0]);
    for (int i = 1; i < end.qps; ++i) {
      end.qp[i] = end.qp[0];
      end.qp[i].rail = static_cast<uint8_t>(i % end.rails);
    }
    return end_point_frame(wire::FrameKind::kHello, end);
  }

  void send_hello(Input& input, const UniqueFd& peer) {
    const uint8_t more_qps = input.below(wire::kMaxQps);
    EndPointFrame frame = valid_hello(more_qps, input.below(wire::kMaxRails));
    input.patch(&frame);
    send_bytes(peer.get(), frame);
    ++hellos;
  }

  // One call of NCCL's. A comm that it returns is closed at once.
  void accept() {
    auto comm = listener->accept();
    if (!comm) check_text(comm.error().text);
  }

  // The peers are gone. One that had the secret may come back for a minute.
  void end_peers() {
    for (UniqueFd& peer : peers) peer.reset();
    for (int i = 0; i < 3 * (hellos + 1); ++i) {
      accept();
      bed.skip(61s);
    }
  }

  void serve_sender() {
    auto valid = bed.make_sender().value();
    transport::FrameChannel channel(connect_peer(handle));
    channel.queue(valid->end_point(handle.secret), wire::FrameKind::kHello);
    check(channel.flush().value(), "a hello cannot be sent");
    auto call_listener = [&] {
      auto comm = listener->accept();
      bed.skip(10ms);  // a peer's end may reach the listener late
      return comm && *comm != nullptr;
    };
    const bool replied = transport::wait_for([&] {
      (void)call_listener();
      pollfd readable{channel.fd(), POLLIN, 0};
      return poll(&readable, 1, 0) == 1;
    });
    check(replied, "the listener does not answer a valid hello");
    const auto reply = transport::next_frame(channel);
    check(reply && reply->kind == wire::FrameKind::kReply,
          "a valid hello is not answered by kReply");
    check(reply->end_point() && reply->end_point()->secret == handle.secret,
          "the reply is not valid");
    channel.queue(wire::FrameKind::kReady, "", 1);
    check(channel.flush().value(), "kReady cannot be sent");
    check(transport::wait_for(call_listener), "the listener makes no comm for a valid sender");
  }
};

}  // namespace

void run_hello(Input input) {
  ListenerRun run(input.byte());
  for (int i = 0; i < ListenerRun::kMaxSteps && !input.empty(); ++i) {
    run.step(input);
    run.accept();
  }
  run.end_peers();
  run.serve_sender();
}

}  // namespace gdr::fuzz
