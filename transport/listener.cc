#include "transport/listener.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "transport/subnet_routing.h"

namespace gdr::transport {
namespace {

// How long a sender whose connection broke or ended, as by a proxy, may take to come back: about as
// long as it tries. Whether its process is gone is asked meanwhile.
constexpr std::chrono::seconds kReturnTimeout{60};

constexpr char kProcessEnded[] =
    ", and a connection to its process is refused. Likely cause: that process ended. Fix: look for "
    "the reason in its log, or for the OOM killer in its host's dmesg";
constexpr char kNobodyReturned[] =
    ", and the sender did not come back. Likely cause: its process has failed or hangs, or a "
    "firewall or proxy closes the connections between the hosts. Fix: look at its log, ";

wire::Secret make_secret() {
  const uint64_t bits[] = {random_bits(), random_bits()};
  wire::Secret secret;
  static_assert(sizeof(bits) == sizeof(secret));
  std::memcpy(secret.data(), bits, sizeof(bits));
  std::fill_n(secret.begin() + wire::kSecretGap, wire::kSecretGapBytes, uint8_t{0});
  return secret;
}

// Its queue pairs and its tables are the same, so that it is the same connection.
bool is_same_sender(const wire::EndPoint& a, const wire::EndPoint& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

// The GIDs of a sender's RoCE rails that do not stand by.
std::vector<wire::Gid> active_gids(const wire::EndPoint& sender) {
  std::array<bool, wire::kMaxRails> active{};
  for (int i = 0; i < sender.qps; ++i) {
    if ((sender.qp[i].flags & wire::kQpStandby) == 0) active[sender.qp[i].rail] = true;
  }
  std::vector<wire::Gid> gids;
  for (int r = 0; r < sender.rails; ++r) {
    if (active[r] && sender.rail[r].ethernet != 0) gids.push_back(sender.rail[r].gid);
  }
  return gids;
}

std::string name_of(const wire::EndPoint& sender) {
  return std::string(sender.host) + " (process " + std::to_string(sender.pid) + ")";
}

}  // namespace

Listener::Listener(const std::vector<Device>& devices, ListeningSocket socket,
                   const wire::Secret& secret, HandshakeRegistry& handshakes)
    : devices_(devices),
      socket_(std::move(socket)),
      secret_(secret),
      pending_(secret, handshakes),
      handshake_(handshakes, {[this] {
                                std::shared_ptr<void> comm = std::move(comm_);
                                end_answer();
                                waiting_.clear();
                                pending_.clear();
                                socket_.fd.reset();
                                return comm;
                              },
                              [this] { return is_sender_gone(); },
                              [this](const HcaContext* hca) {
                                return comm_ != nullptr && comm_->set_up().give_up_standby(hca);
                              }}) {}

Result<std::unique_ptr<Listener>> Listener::create(const std::vector<Device>& devices,
                                                   RailChoice rails, HandshakeOptions options,
                                                   Watcher* watcher,
                                                   HandshakeRegistry& handshakes) {
  Result<ListeningSocket> socket = listen_tcp(options.transport->bind_address);
  if (!socket) return forward_error(socket);
  std::unique_ptr<Listener> listener(
      new Listener(devices, std::move(*socket), make_secret(), handshakes));
  listener->rails_ = std::move(rails);
  listener->options_ = std::move(options.transport);
  listener->connection_ = std::move(options.connection);
  listener->watcher_ = watcher;
  return listener;
}

void Listener::write_handle(wire::Handle* handle) const {
  *handle = wire::Handle{};
  handle->magic = wire::kMagic;
  handle->version = wire::kWireVersion;
  handle->secret = secret_;
  write_address(socket_.address, handle);
  if (connection_->failover && rails_.active.size() + rails_.standby.size() > 1) {
    handle->flags |= wire::kHandleSpreads;
    handle->active_rails = static_cast<uint8_t>(rails_.active.size());
    handle->standby_rails = static_cast<uint8_t>(rails_.standby.size());
  }
  if (!options_->subnet_aware_routing) return;
  const wire::Gid gid = subnet_gid(devices_[rails_.active.front()], options_->connection);
  if (!is_null(gid)) handle->gids[handle->gid_count++] = gid;
}

Result<std::unique_ptr<ReceiveComm>> Listener::accept() {
  auto call = handshake_.begin_call("accept");
  if (!call) return forward_error(call);
  Result<bool> ready = advance();
  if (!ready) {
    end_answer();
    handshake_.on_complete();
    return forward_error(ready);
  }
  if (!*ready) {
    handshake_.on_waiting([this](long long seconds) { return text_of_stall(seconds); });
    return nullptr;
  }
  handshake_.on_complete();
  connected_.insert(sender_.sequence_base);
  comm_->keep_link(std::move(channel_), direct_);
  return std::move(comm_);
}

// That no connection can be accepted concerns only senders that are still to come.
Result<bool> Listener::advance() {
  Status read = read_hellos();
  if (comm_ == nullptr) {
    if (!read) return forward_error(read);
    if (waiting_.empty()) return false;
    if (Status status = answer_next(); !status) return forward_error(status);
    handshake_.on_progress();
  }
  return await_ready();
}

Status Listener::read_hellos() {
  Result<std::vector<Hello>> hellos = pending_.advance(socket_.fd.get());
  if (!hellos) return forward_error(hellos);
  for (Hello& hello : *hellos) on_hello(std::move(hello));
  return {};
}

// A sender whose connection broke before it had the reply connects again and sends the same hello.
// It has done nothing with a reply, and nothing is written to it before its kReady, so that the
// comm which was made for it, and the reply, are still right.
void Listener::on_hello(Hello hello) {
  if (connected_.contains(hello.sender.sequence_base)) return;
  if (comm_ != nullptr && is_same_sender(hello.sender, sender_)) {
    GDR_INFO(log::kNet, "handshake with %s: the sender has connected again",
             name_of(sender_).c_str());
    use(std::move(hello.channel));
    if (replied_) queue_reply();
    broken_.reset();
    asking_.stop();
    return;
  }
  auto same = std::find_if(waiting_.begin(), waiting_.end(), [&](const Hello& other) {
    return is_same_sender(other.sender, hello.sender);
  });
  if (same != waiting_.end()) {
    *same = std::move(hello);
  } else {
    waiting_.push_back(std::move(hello));
  }
}

Status Listener::answer_next() {
  sender_ = waiting_.front().sender;
  use(std::move(waiting_.front().channel));
  waiting_.pop_front();
  Status status = answer(sender_);
  if (!status) refuse(status.error());
  return status;
}

Status Listener::answer(const wire::EndPoint& sender) {
  Result<std::unique_ptr<ReceiveComm>> comm =
      ReceiveComm::create(choose_rails(devices_, rails_, active_gids(sender), *options_),
                          connection_, watcher_, sender);
  if (!comm) return forward_error(comm);
  Result<bool> connected = (*comm)->set_up().connect(sender);
  if (!connected) return forward_error(connected);
  comm_ = std::move(*comm);
  replied_ = false;
  if (*connected) queue_reply();
  return {};
}

Result<bool> Listener::connect_queue_pairs() {
  Result<bool> connected = comm_->set_up().connect_step();
  if (!connected) refuse(connected.error());
  if (connected && *connected) queue_reply();
  return connected;
}

void Listener::queue_reply() {
  wire::EndPoint reply = comm_->end_point(secret_);
  reply.seen_from = fingerprint_of(channel_.peer());
  channel_.queue(reply, wire::FrameKind::kReply);
  replied_ = true;
}

void Listener::refuse(const Error& error) {
  channel_.queue_text(wire::FrameKind::kRefuse, error.text);
  (void)channel_.flush();
}

// Waits for kReady: clear-to-send may only be written once the sender's QPs are ready to receive.
Result<bool> Listener::await_ready() {
  if (!replied_) {
    Result<bool> connected = connect_queue_pairs();
    if (!connected || !*connected) return connected;
  }
  const auto who = [this] { return "handshake with " + name_of(sender_) + ": "; };
  if (!channel_.valid()) {
    if (!is_return_overdue()) return false;
    return fail(Code::kRemote,
                who() + "the connection broke or was closed" +
                    (gone_ ? kProcessEnded : std::string(kNobodyReturned) + kAllowTcp));
  }
  Result<bool> sent = channel_.flush();
  if (sent && !*sent) return false;
  Result<std::optional<Frame>> frame = sent ? channel_.receive() : forward_error(sent);
  if (!frame) {
    frame.error().text = who() + frame.error().text;
    return on_channel_broken(std::move(frame.error()));
  }
  if (!frame->has_value()) return false;
  const std::vector<uint8_t>& body = (*frame)->body;
  if ((*frame)->kind == wire::FrameKind::kReady && body.size() == 1 && body.front() <= 1) {
    direct_ = body.front() == 1;
    return true;
  }
  if ((*frame)->kind == wire::FrameKind::kRefuse) {
    return fail(Code::kRemote, who() + "the sender gives up: " + (*frame)->text());
  }
  return fail(Code::kInternal, who() + "the sender sent an unexpected frame");
}

// Only a kRefuse shows that the sender gives up.
Result<bool> Listener::on_channel_broken(Error error) {
  if (error.code != Code::kRemote) return tl::unexpected<Error>(std::move(error));
  GDR_INFO(log::kNet, "%s; waiting for the sender to connect again", error.text.c_str());
  note_broken();
  channel_ = FrameChannel();
  return false;
}

void Listener::note_broken() {
  if (broken_) return;
  broken_ = handshake_.now();
  asking_.begin(*broken_);
}

// Only where nothing between the ends replaces addresses is a connection refused by the sender's
// host (docs/adr/0003-kept-socket.md).
void Listener::use(FrameChannel channel) {
  channel_ = std::move(channel);
  process_ = ReopenTarget{.from = own_address(channel_.fd()),
                          .own = wire::proof_of(false, secret_, sender_.sequence_base),
                          .peers = wire::proof_of(true, secret_, sender_.sequence_base),
                          .direct = true};
  const sockaddr_storage to = channel_.peer();
  if (sender_.tcp_port == 0 || sender_.seen_from != fingerprint_of_host(to)) return;
  process_.to = to;
  set_port(&process_.to, sender_.tcp_port);
}

bool Listener::is_return_overdue() {
  const Clock::time_point now = handshake_.now();
  const bool asks = asking_.deadline() <= now;
  if (asks && asking_.step(now) == Reopening::Answer::kRefused) gone_ = true;
  return gone_ || now - *broken_ >= kReturnTimeout;
}

// While accept() is not called, a sender that has come back waits at the listening socket, or among
// the peers whose hellos are not read yet.
bool Listener::is_sender_gone() {
  if (comm_ == nullptr) return false;
  if (channel_.valid() && channel_.has_ended()) note_broken();
  pollfd arrived{socket_.fd.get(), POLLIN, 0};
  return broken_ && is_return_overdue() && pending_.empty() && poll(&arrived, 1, 0) == 0;
}

void Listener::end_answer() {
  comm_.reset();
  channel_ = FrameChannel();
  broken_.reset();
  asking_.stop();
  gone_ = false;
}

std::string Listener::text_of_stall(long long seconds) const {
  const std::string since = "no progress for " + std::to_string(seconds) + " s; ";
  const std::string here = "accepting on " + to_string(socket_.address) + ": ";
  if (comm_ != nullptr && !replied_) {
    return here + since + "the queue pairs to " + name_of(sender_) +
           " are not connected yet. Likely cause: its address is not resolved by ARP or neighbour "
           "discovery. Fix: make sure that it can be reached over the RDMA network (ping)";
  }
  if (comm_ != nullptr) {
    return here + since + name_of(sender_) +
           (broken_ ? " lost its connection and has not come back"
                    : " has the reply and is not ready yet") +
           ". Likely cause: its rank has not called connect again, because it failed, hangs or "
           "waits for another rank. Fix: look at that rank's log and stack";
  }
  return here + since +
         "no sender has come. Likely cause: the sender's rank has not called connect, because it "
         "failed, hangs or waits for another rank, or a firewall drops its connections. Fix: look "
         "at that rank's log, " +
         kAllowTcp;
}

}  // namespace gdr::transport
