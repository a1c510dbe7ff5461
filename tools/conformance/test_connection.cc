#include "tools/conformance/test_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gdr::tools {

namespace {
constexpr size_t kCacheLine = 64;

size_t first_other(const char* data, size_t bytes, uint8_t value) {
  auto other = [value](char byte) { return static_cast<uint8_t>(byte) != value; };
  return static_cast<size_t>(std::find_if(data, data + bytes, other) - data);
}
}  // namespace

GuardedBuffer::GuardedBuffer(size_t bytes, size_t misalign)
    : memory_(bytes + 2 * kGuardBytes + 2 * kCacheLine, static_cast<char>(kGuard)),
      data_(nullptr),
      bytes_(bytes) {
  auto start = reinterpret_cast<uintptr_t>(memory_.data()) + kGuardBytes;
  size_t to_aligned = (kCacheLine - start % kCacheLine) % kCacheLine;
  data_ = memory_.data() + kGuardBytes + to_aligned + misalign % kCacheLine;
  std::memset(data_, kBlank, bytes);
}

std::string GuardedBuffer::damage(size_t used) const {
  const char* before = data_ - kGuardBytes;
  if (size_t at = first_other(before, kGuardBytes, kGuard); at < kGuardBytes) {
    return fmt::format("the byte {} before the buffer was overwritten", kGuardBytes - at);
  }
  const char* after = data_ + bytes_;
  if (size_t at = first_other(after, kGuardBytes, kGuard); at < kGuardBytes) {
    return fmt::format("the byte {} past the end of the buffer ({} bytes) was overwritten", at,
                       bytes_);
  }
  size_t rest = bytes_ - used;
  if (size_t at = first_other(data_ + used, rest, kBlank); at < rest) {
    return fmt::format("byte {} was overwritten, beyond the message of {} bytes", used + at, used);
  }
  return {};
}

void TestConnection::close_send() {
  if (!send_) return;
  void* comm = send_.release();
  session_->must("closeSend", [&] { return session_->net().close_send(comm); });
}

void TestConnection::close_recv() {
  if (!recv_) return;
  void* comm = recv_.release();
  session_->must("closeRecv", [&] { return session_->net().close_recv(comm); });
}

std::vector<TestConnection> open_connections(Session& session, void* context,
                                             const std::vector<LinkSpec>& specs) {
  auto links = connect_links(session.control(), session.net(), context, session.dev(), specs);
  if (!links) session.fail(links.error().text);
  std::vector<TestConnection> connections;
  for (size_t i = 0; i < specs.size(); ++i) {
    connections.emplace_back(session, std::move(links->send[i]), std::move(links->recv[i]));
  }
  return connections;
}

std::vector<TestConnection> open_connections(Session& session, const std::vector<LinkSpec>& specs) {
  return open_connections(session, session.context(), specs);
}

TestConnection open_connection(Session& session, void* context, int from, int to) {
  return std::move(open_connections(session, context, {{from, to}}).front());
}

TestConnection open_connection(Session& session, int from, int to) {
  return open_connection(session, session.context(), from, to);
}

CheckedRegistration::CheckedRegistration(Session& session, void* comm, void* data, size_t bytes)
    : session_(&session), comm_(comm) {
  size_t length = std::max<size_t>(bytes, 1);
  session.must("regMr",
               [&] { return session.net().reg_mr(comm, data, length, abi::kPtrHost, &mhandle_); });
}

CheckedRegistration::~CheckedRegistration() {
  if (comm_ == nullptr) return;
  session_->must("deregMr", [&] { return session_->net().dereg_mr(comm_, mhandle_); });
}

}  // namespace gdr::tools
