#include "tools/conformance/test_connection.h"

#include <algorithm>

namespace gdr::tools {

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
