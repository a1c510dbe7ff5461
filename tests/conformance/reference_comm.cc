#include "tests/conformance/reference_comm.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "tests/conformance/defect.h"

namespace gdr::reference {
namespace {
constexpr int64_t kPluginId = 0x52660001;  // names the layout of the data, of which there is none

constexpr int kLongMs = 3000;  // duration of a call with a blocking defect

UniqueFd local_socket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void wait_until_readable(const UniqueFd& fd) {
  pollfd wait{fd.get(), POLLIN, 0};
  poll(&wait, 1, kLongMs);
}

bool is_optional(const void* request) {
  return reinterpret_cast<uintptr_t>(request) == abi::kOptionalReceiveCompletion;
}
}  // namespace

void Event::start(void* phandle) {
  abi::ncclProfilerCallback_t profiler = g_profiler.load();
  if (profiler == nullptr) return;
  if (has_defect("wrong_phandle")) phandle = this;
  profiler(&handle_, abi::kProfilerEventStart, phandle, kPluginId, nullptr);
  open_ = true;
}

void Event::stop() {
  if (!open_) return;
  open_ = false;
  abi::ncclProfilerCallback_t profiler = g_profiler.load();
  bool recorded = handle_ != nullptr || has_defect("stops_null");
  if (profiler == nullptr || !recorded || has_defect("never_stops")) return;
  profiler(&handle_, abi::kProfilerEventStop, nullptr, 0, nullptr);
  if (has_defect("stops_twice")) {
    profiler(&handle_, abi::kProfilerEventStop, nullptr, 0, nullptr);
  }
}

Comm::~Comm() {
  // With unread packets, the close would become a reset, which the peer would find before data that
  // is still in transit.
  char rest[4096];
  while (recv(fd_.get(), rest, sizeof(rest), MSG_DONTWAIT) > 0) {
  }
  if (has_defect("leaks_descriptors")) fd_.release();
}

bool Comm::read_packet(void* into, size_t room, size_t* bytes) {
  if (broken_) return false;
  ssize_t got = recv(fd_.get(), into, room, MSG_DONTWAIT);
  if (bytes != nullptr && got > 0) *bytes = static_cast<size_t>(got);
  if (got > 0) return true;
  bool closed = got == 0 || (errno != EAGAIN && errno != EINTR);
  if (closed && !has_defect("ignores_death")) broken_ = true;
  return false;
}

bool Comm::write_packet(void* from, size_t bytes, char* more, size_t more_bytes) {
  if (broken_) return false;
  iovec parts[] = {{from, bytes}, {more, more_bytes}};
  msghdr packet{};
  packet.msg_iov = parts;
  packet.msg_iovlen = std::size(parts);
  if (sendmsg(fd_.get(), &packet, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
  if (errno != EAGAIN && errno != EINTR && !has_defect("ignores_death")) broken_ = true;
  return false;
}

Request* Comm::add_request() {
  requests_.push_back(std::make_unique<Request>());
  requests_.back()->comm = this;
  return requests_.back().get();
}

abi::ncclResult_t Comm::test(Request* request, int* done, int* sizes) {
  if (!request->done) progress();
  *done = request->done ? 1 : 0;
  if (request->optional && has_defect("forgets_optional")) *done = 0;
  if (*done == 0 && request->done) return abi::ncclSuccess;
  if (!request->done) return broken_ ? abi::ncclRemoteError : abi::ncclSuccess;
  if (has_defect("needs_sizes") || sizes != nullptr) {
    for (uint32_t i = 0; i < request->buffers; ++i) {
      bool wrong = has_defect("wrong_size") && request->room[i] > 0;
      size_t bytes = wrong ? request->room[i] : request->sizes[i];
      if (!has_defect("negative_size")) bytes = std::min<size_t>(bytes, INT_MAX);
      sizes[i] = static_cast<int>(bytes);
    }
  }
  std::erase_if(requests_, [request](const auto& each) { return each.get() == request; });
  return abi::ncclSuccess;
}

SendComm* SendComm::start(const Handle& handle) {
  UniqueFd fd = local_socket();
  sockaddr_un name{AF_UNIX, {}};
  std::copy(handle.name.begin(), handle.name.end(), name.sun_path);
  const socklen_t length = offsetof(sockaddr_un, sun_path) + handle.name.size();
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&name), length) != 0) return nullptr;
  return new SendComm(std::move(fd));
}

abi::ncclResult_t SendComm::step(bool* is_welcome) {
  if (has_defect("blocking_connect")) wait_until_readable(fd_);
  char welcome = 0;
  *is_welcome = read_packet(&welcome, 1);
  return broken_ ? abi::ncclRemoteError : abi::ncclSuccess;
}

abi::ncclResult_t SendComm::isend(void* data, size_t bytes, int tag, void* phandle,
                                  void** request) {
  constexpr size_t kRoom = size_t{abi::kMaxRequests} * abi::kMaxRecvs;
  progress();
  if (broken_) return abi::ncclRemoteError;
  if (clears_.empty() && has_defect("early_send_fails")) return abi::ncclInternalError;
  if (!(has_defect("leaves_request"))) *request = nullptr;
  if (clears_.empty() || requests_.size() >= kRoom) return abi::ncclSuccess;
  Waiting& waiting = clears_.front();
  uint32_t slot = 0;
  while (slot < waiting.clear.buffers &&
         (waiting.taken[slot] || (waiting.clear.tags[slot] != tag && !has_defect("drops_tag")))) {
    ++slot;
  }
  if (slot == waiting.clear.buffers) return abi::ncclSuccess;
  if (bytes > waiting.clear.sizes[slot]) {
    if (!has_defect("truncates")) return abi::ncclInvalidUsage;
    bytes = waiting.clear.sizes[slot];
  }
  waiting.taken[slot] = true;
  Request* made = add_request();
  uint64_t sent = has_defect("wraps_size") ? static_cast<uint32_t>(bytes) : bytes;
  made->header = DataHeader{waiting.clear.sequence, slot, sent, 0};
  made->data[0] = static_cast<char*>(data);
  made->sizes[0] = bytes;
  made->events[0].start(phandle);
  if (--waiting.left == 0) clears_.pop_front();
  *request = made;
  progress();
  return abi::ncclSuccess;
}

// Returns true when the whole message has been written to the socket.
bool SendComm::write_message(Request& request) {
  DataHeader& header = request.header;
  do {
    const size_t part = std::min(header.bytes - header.offset, sizeof(Packet::data));
    char* from = request.data[0] + header.offset;
    if (!write_packet(&header, sizeof(header), from, part)) return false;
    header.offset += part;
  } while (header.offset < header.bytes);
  return true;
}

void SendComm::progress() {
  ClearToSend clear;
  while (read_packet(&clear, sizeof(clear))) clears_.push_back({clear, {}, clear.buffers});
  for (const auto& request : requests_) {
    if (request->done) continue;
    if (!write_message(*request)) return;
    request->done = true;
  }
}

abi::ncclResult_t RecvComm::irecv(int n, void** data, const size_t* sizes, const int* tags,
                                  void** phandles, void** request) {
  progress();
  if (broken_) return abi::ncclRemoteError;
  size_t room = has_defect("few_requests") ? 8 : abi::kMaxRequests;
  if (requests_.size() >= room) {
    if (has_defect("full_is_error")) return abi::ncclSystemError;
    bool leaves =
        has_defect("leaves_request") || (has_defect("leaves_marker") && is_optional(*request));
    if (!leaves) *request = nullptr;
    return abi::ncclSuccess;
  }
  Request* made = add_request();
  made->sequence = next_sequence_++;
  made->left = made->buffers = static_cast<uint32_t>(n);
  ClearToSend clear;
  clear.sequence = made->sequence;
  clear.buffers = made->buffers;
  for (int i = 0; i < n; ++i) {
    made->data[i] = static_cast<char*>(data[i]);
    made->room[i] = clear.sizes[i] = sizes[i];
    clear.tags[i] = tags[i];
    if (phandles != nullptr) made->events[i].start(phandles[i]);
  }
  made->optional = is_optional(*request);
  out_.push_back(clear);
  progress();
  *request = made;
  return abi::ncclSuccess;
}

// Copies a packet's bytes into the buffer of their message.
void RecvComm::take(size_t bytes) {
  const DataHeader& header = packet_.header;
  auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& each) {
    return each->sequence == header.sequence && !each->done;
  });
  if (found == requests_.end() || header.slot >= (*found)->buffers ||
      header.bytes > (*found)->room[header.slot] || header.offset + bytes > header.bytes) {
    broken_ = true;  // the peer violates the protocol
    return;
  }
  Request& request = **found;
  char* at = request.data[header.slot] + header.offset;
  std::copy_n(packet_.data.data(), bytes, at);
  if (header.offset + bytes < header.bytes) return;
  char* end = at + bytes;
  if (has_defect("writes_past_end")) *end = 'x';
  if (has_defect("corrupts_large") && header.bytes > (4u << 20)) end[-1] ^= 1;
  request.sizes[header.slot] = header.bytes;
  bool lost = has_defect("loses_empty") && header.bytes == 0;
  if (!lost && --request.left == 0) request.done = true;
}

void RecvComm::progress() {
  while (!out_.empty() && write_packet(&out_.front(), sizeof(ClearToSend))) out_.pop_front();
  size_t bytes = 0;
  while (read_packet(&packet_, sizeof(packet_), &bytes)) take(bytes - sizeof(DataHeader));
}

ListenComm* ListenComm::open(Handle* handle) {
  auto made = std::make_unique<ListenComm>();
  made->fd_ = local_socket();
  sockaddr_un name{AF_UNIX, {}};
  socklen_t length = sizeof(name);
  auto* address = reinterpret_cast<sockaddr*>(&name);
  // A name of no bytes makes the kernel choose one.
  if (bind(made->fd_.get(), address, sizeof(sa_family_t)) != 0 ||
      ::listen(made->fd_.get(), 1024) != 0 || getsockname(made->fd_.get(), address, &length) != 0) {
    return nullptr;
  }
  std::copy_n(name.sun_path, handle->name.size(), handle->name.begin());
  return made.release();
}

abi::ncclResult_t ListenComm::accept(RecvComm** comm) {
  if (has_defect("blocking_accept")) wait_until_readable(fd_);
  UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) return abi::ncclSuccess;
  send(fd.get(), "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  *comm = new RecvComm(std::move(fd));
  return abi::ncclSuccess;
}

}  // namespace gdr::reference
