// A handle of 128 arbitrary bytes, which another rank's NCCL hands to connect(). Whatever it is,
// the same transport then connects by a valid one.
#include "tests/fuzz/socket_peer.h"

namespace gdr::fuzz {
namespace {

namespace wire = transport::wire;

// The second byte of an input, after the form of the bed: what is made valid in the handle that
// follows.
enum : uint8_t {
  kValidBeginning = 1,  // magic and version
  kValidReserved = 2,   // what is zero in this version
  kValidSecret = 4,     // and the address of a listener of this process
  kRefusedPort = 8,     // a port on which nobody listens
};

struct TransportRun {
  explicit TransportRun(uint8_t form) : bed(form) {}

  FuzzBed bed;
  std::unique_ptr<transport::Transport> transport = make();
  std::unique_ptr<transport::Listener> listener =
      transport->listen(transport::RailChoice{{1}, {}}).value();
  transport::RawReceiver raw;
  UniqueFd unused;  // holds a port

  std::unique_ptr<transport::Transport> make() {
    bed.options.connection.now = bed.now;
    return transport::Transport::create({bed.sender_device, bed.receiver_device}, bed.options)
        .value();
  }

  // A port of this process to which nobody can connect.
  uint16_t refused_port() {
    sockaddr_storage address = transport::loopback_address();
    socklen_t length = sizeof(sockaddr_in);
    unused.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto* raw_address = reinterpret_cast<sockaddr*>(&address);
    check(bind(unused.get(), raw_address, length) == 0, "no free port");
    check(getsockname(unused.get(), raw_address, &length) == 0, "a socket has no address");
    return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  }

  wire::Handle read_handle(Input& input) {
    const uint8_t valid = input.byte();
    wire::Handle handle = input.number<wire::Handle>();
    if ((valid & kValidBeginning) != 0) {
      handle.magic = wire::kMagic;
      handle.version = wire::kWireVersion;
    }
    if ((valid & kValidReserved) != 0) {
      handle.reserved0 = 0;
      handle.ipv6 &= 1;
      std::ranges::fill(handle.reserved1, uint8_t{0});
      const bool spreads = handle.active_rails != 0;
      handle.active_rails = spreads ? 1 + handle.active_rails % 4 : 0;
      handle.standby_rails = spreads ? 1 + handle.standby_rails % 4 : 0;
    }
    keep_inside(valid, &handle);
    return handle;
  }

  // Nothing may be sent to other hosts, or to other programs of this one: the address stays in
  // 127.0.0.0/8, and the port is one of this process, unless it is zero.
  void keep_inside(uint8_t valid, wire::Handle* handle) {
    const wire::Handle own = transport::handle_of(*listener);
    handle->address[0] = 127;
    if (handle->ipv6 != 0) {
      handle->address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    }
    if ((valid & kValidSecret) != 0) {
      handle->ipv6 = 0;
      handle->address = own.address;
      handle->secret = own.secret;
    }
    if (handle->tcp_port == 0) return;
    handle->tcp_port = (valid & kRefusedPort) != 0   ? refused_port()
                       : (valid & kValidSecret) != 0 ? own.tcp_port
                                                     : raw.handle().tcp_port;
  }

  // Accepts what has connected to the handle's port, so that it ends by a reset.
  void accept_raw() {
    auto fd = transport::accept_tcp(raw.socket.fd.get());
    if (fd && fd->has_value()) reset_when_closed((*fd)->get());
  }

  void connect(wire::Handle handle) {
    for (int calls = 0; calls < 8; ++calls) {
      auto comm = transport->connect(transport::RailChoice{{0}, {}}, &handle);
      if (!comm) {
        check_text(comm.error().text);
        check(handle.connect_ticket == 0 || calls == 0, "a failed connection keeps its ticket");
      }
      if (!comm || *comm != nullptr) return;
      accept_raw();
      (void)listener->accept();
      bed.skip(std::chrono::milliseconds(200));
    }
  }

  void connect_validly() {
    wire::Handle handle = transport::handle_of(*listener);
    auto comm = transport::drive([&] {
      (void)listener->accept();  // may also be the other connection's end
      return transport->connect(transport::RailChoice{{0}, {}}, &handle);
    });
    check(comm && *comm != nullptr, "the transport does not connect by a valid handle");
  }
};

}  // namespace

void run_handle(Input input) {
  TransportRun run(input.byte());
  run.connect(run.read_handle(input));
  run.connect_validly();
}

}  // namespace gdr::fuzz
