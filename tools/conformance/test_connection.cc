#include "tools/conformance/test_connection.h"

#include <algorithm>

namespace gdr::tools {

void TestConnection::close_send() {
  if (!send_) return;
  void* comm = send_.release();
  session_->must("closeSend", [&] { return session_->net().closeSend(comm); });
}

void TestConnection::close_recv() {
  if (!recv_) return;
  void* comm = recv_.release();
  session_->must("closeRecv", [&] { return session_->net().closeRecv(comm); });
}

std::vector<TestConnection> open_connections(Session& session, const std::vector<LinkSpec>& specs) {
  auto links = connect_links(session.control(), session.net(), session.dev(), specs);
  if (!links) session.fail(links.error().text);
  std::vector<TestConnection> connections;
  for (size_t i = 0; i < specs.size(); ++i) {
    connections.emplace_back(session, std::move(links->send[i]), std::move(links->recv[i]));
  }
  return connections;
}

TestConnection open_connection(Session& session, int from, int to) {
  return std::move(open_connections(session, {{from, to}}).front());
}

CheckedRegistration::CheckedRegistration(Session& session, void* comm, void* data, size_t bytes)
    : session_(&session), comm_(comm) {
  size_t length = std::max<size_t>(bytes, 1);
  session.must("regMr",
               [&] { return session.net().regMr(comm, data, length, abi::kPtrHost, &mhandle_); });
}

CheckedRegistration::~CheckedRegistration() {
  if (comm_ == nullptr) return;
  session_->must("deregMr", [&] { return session_->net().deregMr(comm_, mhandle_); });
}

}  // namespace gdr::tools
