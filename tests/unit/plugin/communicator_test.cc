#include "plugin/communicator.h"

#include <gmock/gmock.h>

#include <limits>
#include <vector>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/handshake_bed.h"

namespace gdr::plugin {
namespace {

using transport::ConnectionOptions;

CommunicatorSettings with_class(int traffic_class, uint64_t id = 1) {
  CommunicatorSettings settings;
  settings.id = id;
  settings.traffic_class = traffic_class;
  return settings;
}

ConnectionOptions options_of(const ConnectionOptions& base, int traffic_class) {
  return *make_communicator(base, with_class(traffic_class)).connection;
}

// A service level has 4 bits: 106 is 0x6a. The process has NCCL_IB_TC and NCCL_IB_SL, each for
// itself.
TEST(Communicator, TrafficClass_GivesTheServiceLevelAndYieldsToTheProcesss) {
  struct Case {
    std::optional<uint8_t> process_class, process_level;
    int traffic_class;  // of the communicator
    std::optional<uint8_t> expected_class, expected_level;
  };
  constexpr std::nullopt_t kNone = std::nullopt;
  for (const Case& one : {
           Case{kNone, kNone, abi::kTrafficClassUndefined, kNone, kNone},
           Case{7, 3, abi::kTrafficClassUndefined, 7, 3},
           Case{kNone, kNone, 0, 0, 0},
           Case{kNone, kNone, 106, 106, 10},
           Case{kNone, kNone, 255, 255, 15},
           Case{32, kNone, 106, 32, 10},
           Case{kNone, 4, 106, 106, 4},
           Case{kNone, kNone, -1, kNone, kNone},
           // NCCL 2.30's host RMA leaves this in the context of its shim for v10.
           Case{kNone, kNone, std::numeric_limits<int>::min(), kNone, kNone},
       }) {
    RecordedLog log;
    ConnectionOptions base;
    base.traffic_class = one.process_class;
    base.service_level = one.process_level;
    const ConnectionOptions options = options_of(base, one.traffic_class);
    EXPECT_EQ(options.traffic_class, one.expected_class) << one.traffic_class;
    EXPECT_EQ(options.service_level, one.expected_level) << one.traffic_class;
    EXPECT_TRUE(log.lines().empty());
  }
}

TEST(OpenCommunicators, Closed_StaysUntilNoneIsOpen) {
  OpenCommunicators all;
  Communicator* parent = all.open(make_communicator({}, with_class(-1, 1)));
  Communicator* child = all.open(make_communicator({}, with_class(-1, 2)));
  std::weak_ptr<const ConnectionOptions> parents = parent->connection;
  std::weak_ptr<const ConnectionOptions> childs = child->connection;
  EXPECT_TRUE(all.close(parent));
  EXPECT_FALSE(parents.expired()) << "NCCL 2.28.3 uses it for the child";
  EXPECT_FALSE(all.close(parent)) << "it is closed";
  EXPECT_TRUE(all.close(child));
  EXPECT_TRUE(parents.expired());
  EXPECT_TRUE(childs.expired());
  EXPECT_FALSE(all.close(&all)) << "no context";
}

void first_logger(abi::ncclDebugLogLevel, unsigned long, const char*, int, const char*, ...) {}
void other_logger(abi::ncclDebugLogLevel, unsigned long, const char*, int, const char*, ...) {}

// Each NCCL of a process has a logger of its own.
TEST(OpenCommunicators, OneOfALogger_IsOpenUntilItIsClosed) {
  OpenCommunicators communicators;
  EXPECT_FALSE(communicators.has_one_of(first_logger));
  Communicator made = make_communicator({}, with_class(0));
  made.logger = first_logger;
  Communicator* const opened = communicators.open(std::move(made));
  EXPECT_TRUE(communicators.has_one_of(first_logger));
  EXPECT_FALSE(communicators.has_one_of(other_logger));
  communicators.close(opened);
  EXPECT_FALSE(communicators.has_one_of(first_logger));
}

// The tables before v11 pass no number.
TEST(Communicator, Owner_IsTheCommunicatorWhereItHasANumber) {
  EXPECT_EQ(make_communicator({}, with_class(-1, 0x1234abcd)).connection->owner,
            "communicator 0x1234abcd");
  EXPECT_EQ(make_communicator({}, with_class(106, 0)).connection->owner, "");
}

// What ibv_modify_qp is given on both ends of a connection, for each communicator.
struct CommunicatorPaths : testing::Test {
  transport::HandshakeBed bed{transport::test_options(), /*roce=*/true};

  struct Paths {
    ibv_ah_attr data;
    ibv_ah_attr clear_to_send;
    std::unique_ptr<transport::SendComm> sender;
    std::unique_ptr<transport::ReceiveComm> receiver;
  };

  // Connects device 0 to device 1 for the communicators of the two ends.
  static Paths connect(transport::Transport& transport, const Communicator& sending,
                       const Communicator& receiving) {
    auto listener = transport.listen(transport::RailChoice{{1}, {}}, receiving.connection).value();
    transport::wire::Handle handle = handle_of(*listener);
    Paths paths;
    EXPECT_TRUE(transport::wait_for([&] {
      if (paths.sender == nullptr) {
        paths.sender =
            transport.connect(transport::RailChoice{{0}, {}}, &handle, sending.connection).value();
      }
      if (paths.receiver == nullptr) paths.receiver = listener->accept().value();
      return paths.sender != nullptr && paths.receiver != nullptr;
    }));
    return paths;
  }
  void read(Paths* paths) {
    paths->data = bed.verbs.attributes(qp_number(*paths->sender)).ah_attr;
    paths->clear_to_send = bed.verbs.attributes(qp_number(*paths->receiver)).ah_attr;
  }
  std::unique_ptr<transport::Transport> make_transport() {
    return transport::Transport::create({bed.sender_device, bed.receiver_device}, bed.options)
        .value();
  }
};

TEST_F(CommunicatorPaths, SeveralCommunicatorsAtOnce_EachHasItsClassOnBothEnds) {
  struct Case {
    int sending, receiving;  // classes of the communicators of the two ends
    int expected;
  };
  // A listener has no communicator before v11, and the sender's hello names its class.
  const Case cases[] = {{106, 106, 106},
                        {34, 34, 34},
                        {abi::kTrafficClassUndefined, abi::kTrafficClassUndefined, 0},
                        {106, -1, 106}};
  auto transport = make_transport();
  const ConnectionOptions& base = transport->options().connection;
  std::vector<Paths> paths;
  for (const Case& one : cases) {
    paths.push_back(connect(*transport, make_communicator(base, with_class(one.sending)),
                            make_communicator(base, with_class(one.receiving))));
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    read(&paths[i]);
    for (const ibv_ah_attr& path : {paths[i].data, paths[i].clear_to_send}) {
      EXPECT_EQ(path.grh.traffic_class, cases[i].expected);
      EXPECT_EQ(path.sl, cases[i].expected & 15);
    }
  }
}

// As NCCL's own back ends do to the context of a network plugin, before a connection and during it.
TEST_F(CommunicatorPaths, NcclWritesAClassIntoTheContext_ConnectionsKeepTheCommunicators) {
  auto transport = make_transport();
  Communicator communicator = make_communicator(transport->options().connection, with_class(106));
  const int foreign = 77;
  std::memcpy(static_cast<void*>(&communicator), &foreign, sizeof(foreign));
  Paths paths = connect(*transport, communicator, communicator);
  std::memset(static_cast<void*>(&communicator), 0xff, sizeof(foreign));
  read(&paths);
  EXPECT_EQ(paths.data.grh.traffic_class, 106);
  EXPECT_EQ(paths.clear_to_send.grh.traffic_class, 106);
  EXPECT_EQ(to_string(communicator), "communicator 0x1");
}

}  // namespace
}  // namespace gdr::plugin
