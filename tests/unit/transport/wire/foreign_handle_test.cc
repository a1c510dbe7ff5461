#include "transport/wire/foreign_handle.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>

#include <cstring>
#include <random>

#include "tests/unit/transport/wire/nccl_handles.h"

namespace gdr::transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFix[] = "Fix: look for the reason in that rank's log";

template <class Theirs>
std::string text_of(const Theirs& theirs) {
  return foreign_handle_text(as_ours(theirs));
}

TEST(ForeignHandle, OfNcclsSocketTransport_NamesItsAddress) {
  EXPECT_THAT(text_of(nccl_socket_handle("192.0.2.1", 4711)),
              AllOf(HasSubstr("handle is not of this plugin: it begins with the socket address "
                              "192.0.2.1:4711, as those of NCCL's own IB and Socket transports"),
                    HasSubstr(kFix), HasSubstr("NCCL_NET=GDR")));
  EXPECT_THAT(text_of(nccl_socket_handle("2001:db8::7", 4711)), HasSubstr("[2001:db8::7]:4711"));
}

TEST(ForeignHandle, OfNcclsIbTransport_NamesItsAddress) {
  EXPECT_THAT(text_of(nccl_ib_handle("192.0.2.1", 65535)), HasSubstr(" 192.0.2.1:65535, as those"));
  EXPECT_THAT(text_of(nccl_ib_handle("fe80::1", 1)), HasSubstr("[fe80::1"));
}

TEST(ForeignHandle, Empty_IsCalledSo) {
  EXPECT_THAT(foreign_handle_text(wire::Handle{}),
              AllOf(HasSubstr("plugin: it is empty. "), HasSubstr(kFix)));
}

// Bytes that are no address are not shown as one.
TEST(ForeignHandle, AnythingElse_IsNotTakenForAnAddress) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    wire::Handle handle;
    auto* bytes = reinterpret_cast<unsigned char*>(&handle);
    for (size_t i = 0; i < sizeof(handle); ++i) bytes[i] = static_cast<unsigned char>(random());
    bytes[1] = 0xff;  // of the family
    EXPECT_THAT(foreign_handle_text(handle), AllOf(HasSubstr("handle is not of this plugin. "),
                                                   Not(HasSubstr("address")), HasSubstr(kFix)));
  }
  NcclSocketHandle without_port = nccl_socket_handle("192.0.2.1", 0);
  EXPECT_THAT(text_of(without_port), Not(HasSubstr("address")));
}

}  // namespace
}  // namespace gdr::transport
