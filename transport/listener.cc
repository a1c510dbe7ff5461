#include "transport/listener.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "transport/subnet_routing.h"

namespace gdr::transport {
namespace {

// How long a sender whose connection broke or ended, as by a proxy, may take to come back. Shorter
// than the 60 s for which a sender tries, as the receiver of a sender that has ended waits as long.
constexpr std::chrono::seconds kReturnTimeout{10};

wire::Secret make_secret() {
  const uint64_t bits[] = {random_bits(), random_bits()};
  wire::Secret secret;
  static_assert(sizeof(bits) == sizeof(secret));
  std::memcpy(secret.data(), bits, sizeof(bits));
  std::fill_n(secret.begin() + wire::kSecretGap, wire::kSecretGapBytes, uint8_t{0});
  return secret;
}

// The GIDs of a sender's RoCE rails that do not stand by.
std::vector<wire::Gid> active_gids(const wire::EndPoint& sender) {
  std::array<bool, wire::kMaxRails> active{};
  for (int i = 0; i < sender.qps; ++i) {
    if (sender.qp[i].standby == 0) active[sender.qp[i].rail] = true;
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

Listener::Listener(HandshakeContext context, RailChoice rails, ListeningSocket socket)
    : context_(std::move(context)),
      rails_(std::move(rails)),
      socket_(std::move(socket)),
      secret_(make_secret()),
      pending_(secret_, *context_.handshakes),
      handshake_(*context_.handshakes, {[this] {
                                          std::shared_ptr<void> comm = std::move(comm_);
                                          end_answer();
                                          waiting_.clear();
                                          pending_.clear();
                                          socket_.fd.reset();
                                          return comm;
                                        },
                                        [this](const HcaContext* hca) {
                                          return comm_ != nullptr && comm_->give_up_standby(hca);
                                        }}) {}

Result<std::unique_ptr<Listener>> Listener::create(HandshakeContext context, RailChoice rails) {
  Result<ListeningSocket> socket = listen_tcp(context.options->bind_address);
  if (!socket) return forward_error(socket);
  return std::unique_ptr<Listener>(
      new Listener(std::move(context), std::move(rails), std::move(*socket)));
}

void Listener::write_handle(wire::Handle* handle) const {
  *handle = wire::Handle{};
  handle->magic = wire::kMagic;
  handle->version = wire::kWireVersion;
  handle->secret = secret_;
  write_address(socket_.address, handle);
  if (context_.connection->failover && rails_.active.size() + rails_.standby.size() > 1) {
    handle->active_rails = static_cast<uint8_t>(rails_.active.size());
    handle->standby_rails = static_cast<uint8_t>(rails_.standby.size());
  }
  if (!context_.options->subnet_aware_routing) return;
  const Device& device = (*context_.devices)[rails_.active.front()];
  handle->gid = subnet_gid(device, context_.options->connection);
}

Result<std::unique_ptr<ReceiveComm>> Listener::accept() {
  auto call = handshake_.begin_call("accept");
  if (!call) return forward_error(call);
  Result<bool> ready = advance();
  if (ready && !*ready) {
    handshake_.on_waiting([this](long long seconds) { return text_of_stall(seconds); });
    return nullptr;
  }
  handshake_.on_complete();
  if (!ready) {
    end_answer();
    return forward_error(ready);
  }
  connected_.insert(sender().sequence_base);
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
  const uint64_t base = hello.sender.sequence_base;
  if (connected_.contains(base)) return;
  if (comm_ != nullptr && base == sender().sequence_base) {
    GDR_INFO(log::kNet, "handshake with %s: the sender has connected again",
             name_of(sender()).c_str());
    channel_ = std::move(hello.channel);
    if (replied_) queue_reply();
    broken_.reset();
    return;
  }
  std::erase_if(waiting_, [&](const Hello& other) { return other.sender.sequence_base == base; });
  waiting_.push_back(std::move(hello));
}

Status Listener::answer_next() {
  const wire::EndPoint sender = waiting_.front().sender;
  channel_ = std::move(waiting_.front().channel);
  waiting_.pop_front();
  replied_ = false;
  auto comm = ReceiveComm::create(
      choose_rails(*context_.devices, rails_, active_gids(sender), *context_.options),
      context_.connection, context_.watcher, sender);
  if (!comm) return channel_.refuse(std::move(comm.error()));
  Result<bool> connected = (*comm)->connect(sender);
  if (!connected) return channel_.refuse(std::move(connected.error()));
  comm_ = std::move(*comm);
  if (*connected) queue_reply();
  return {};
}

void Listener::queue_reply() {
  wire::EndPoint reply = comm_->end_point(secret_);
  reply.seen_from = fingerprint_of(channel_.peer());
  channel_.queue(reply, wire::FrameKind::kReply);
  replied_ = true;
}

// Waits for kReady: clear-to-send may only be written once the sender's QPs are ready to receive.
Result<bool> Listener::await_ready() {
  if (!replied_) {
    Result<bool> connected = comm_->connect_step();
    if (!connected) return channel_.refuse(std::move(connected.error()));
    if (!*connected) return false;
    queue_reply();
  }
  const std::string who = "handshake with " + name_of(sender()) + ": ";
  if (!channel_.valid()) {
    if (handshake_.now() - *broken_ < kReturnTimeout) return false;
    return fail(Code::kRemote,
                who +
                    "the connection broke or was closed, and the sender did not come back. "
                    "Likely cause: its process has ended or hangs, or a firewall or proxy closes "
                    "the connections between the hosts. Fix: look at its log, and for the OOM "
                    "killer in its host's dmesg; " +
                    kAllowTcp);
  }
  Result<bool> sent = channel_.flush();
  if (sent && !*sent) return false;
  Result<std::optional<Frame>> frame = sent ? channel_.receive() : forward_error(sent);
  // Only a kRefuse shows that the sender gives up.
  if (!frame && frame.error().code == Code::kRemote) {
    GDR_INFO(log::kNet, "%s%s; waiting for the sender to connect again", who.c_str(),
             frame.error().text.c_str());
    broken_ = handshake_.now();
    channel_ = FrameChannel();
    return false;
  }
  if (!frame) return fail(frame.error().code, who + frame.error().text);
  if (!frame->has_value()) return false;
  const std::vector<uint8_t>& body = (*frame)->body;
  if ((*frame)->kind == wire::FrameKind::kReady && body.size() == 1 && body.front() <= 1) {
    direct_ = body.front() == 1;
    return true;
  }
  if ((*frame)->kind == wire::FrameKind::kRefuse) {
    return fail(Code::kRemote, who + "the sender gives up: " + (*frame)->text());
  }
  return fail(Code::kInternal, who + "the sender sent an unexpected frame");
}

void Listener::end_answer() {
  comm_.reset();
  channel_ = FrameChannel();
  broken_.reset();
}

std::string Listener::text_of_stall(long long seconds) const {
  const std::string text = "accepting on " + to_string(socket_.address) + ": no progress for " +
                           std::to_string(seconds) + " s; ";
  if (comm_ == nullptr) {
    return text +
           "no sender has come. Likely cause: the sender's rank has not called connect, because it "
           "failed, hangs or waits for another rank, or a firewall drops its connections. Fix: "
           "look at that rank's log, " +
           kAllowTcp;
  }
  if (!replied_) {
    return text + "the queue pairs to " + name_of(sender()) +
           " are not connected yet. Likely cause: its address is not resolved by ARP or neighbour "
           "discovery. Fix: make sure that it can be reached over the RDMA network (ping)";
  }
  return text + name_of(sender()) +
         " has the reply and is not ready yet. Likely cause: its rank has not called connect "
         "again, because it failed, hangs or waits for another rank. Fix: look at that rank's log "
         "and stack";
}

}  // namespace gdr::transport
