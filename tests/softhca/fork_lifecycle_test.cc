// Children of fork(2) that do not call exec, over the software HCA: those that leave the plugin
// alone, those that use what they inherited, and those that call init themselves.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "tests/softhca/loaded_table.h"
#include "tests/softhca/net_pair.h"

namespace gdr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Table = abi::ncclNet_v12_t;

#ifdef __SANITIZE_THREAD__
constexpr char kSameNumber[] =
    "it takes a thread of a child for one of its parent's that has the same number";
#endif

// A child that hangs is ended by this, which its exit status shows.
constexpr unsigned kChildSeconds = 60;

// Runs `body` in a child, whose exit status is 0 unless a test failed there.
template <class Body>
pid_t start_child(const Body& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(kChildSeconds);
  PluginLog::renew();
  body();
  std::fflush(stdout);
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

void expect_success(pid_t child) {
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

template <class Body>
void in_child(const Body& body) {
  expect_success(start_child(body));
}

// A connection of the parent that goes on during everything that a child does.
struct Fork : ::testing::Test {
  LoadedTable<12> table;
  std::unique_ptr<NetCommunicator<Table>> communicator =
      std::make_unique<NetCommunicator<Table>>(*table);
  NetPair<Table> pair{*table, communicator->context()};

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(pair.connect());
    ASSERT_NO_FATAL_FAILURE(pair.exchange(1));
  }
  void TearDown() override {
    ASSERT_NO_FATAL_FAILURE(pair.exchange(2));
    pair.close();
    EXPECT_THAT(PluginLog::warnings(), IsEmpty());
  }
};

TEST_F(Fork, ChildWithoutInit_HasNoDevicesAndGetsErrorsThatSaySo) {
  in_child([&] {
    int devices = -1;
    EXPECT_EQ(table->devices(&devices), abi::ncclSuccess);
    EXPECT_EQ(devices, 0);
    abi::ncclNetProperties_v12_t properties;
    EXPECT_EQ(table->getProperties(0, &properties), abi::ncclInvalidArgument);
    char handle[abi::kHandleMaxBytes] = {};
    void* comm = nullptr;
    void* context = communicator->context();
    EXPECT_EQ(plugin::listen(*table, context, 0, handle, &comm), abi::ncclInvalidArgument);
    EXPECT_EQ(plugin::connect(*table, context, 0, handle, &comm), abi::ncclInvalidArgument);
    EXPECT_EQ(table->regMr(pair.sender(), handle, sizeof(handle), abi::kPtrHost, &comm),
              abi::ncclInvalidArgument);
    for (const char* call : {"getProperties", "listen", "connect", "regMr"}) {
      EXPECT_THAT(PluginLog::warnings(std::string(call) + ": called before init, after an init "
                                                          "that failed, or in a process that was "
                                                          "forked since"),
                  SizeIs(1));
    }
  });
}

TEST_F(Fork, ChildAcceptsOnAnInheritedListener_IsAnErrorThatSaysSo) {
  char handle[abi::kHandleMaxBytes] = {};
  void* listener = nullptr;
  ASSERT_EQ(plugin::listen(*table, communicator->context(), 0, handle, &listener),
            abi::ncclSuccess);
  in_child([&] {
    NetCommunicator<Table> own(*table);
    void* comm = nullptr;
    EXPECT_EQ(plugin::accept(*table, listener, &comm), abi::ncclInvalidArgument);
    EXPECT_EQ(comm, nullptr);
    EXPECT_THAT(PluginLog::warnings("accept: called before init, after"), SizeIs(1));
    EXPECT_EQ(table->closeListen(listener), abi::ncclSuccess);
  });
  EXPECT_EQ(table->closeListen(listener), abi::ncclSuccess);
}

// They close and free nothing of the parent's.
TEST_F(Fork, ChildClosesWhatItInherited_ParentGoesOn) {
  in_child([&] {
    pair.close();
    communicator.reset();
    EXPECT_THAT(PluginLog::warnings(), IsEmpty());
  });
  for (int i = 0; i < 10; ++i) ASSERT_NO_FATAL_FAILURE(pair.exchange(i));
}

// exit(3) runs the destructors of the libraries.
TEST_F(Fork, ChildCallsExit_ParentGoesOn) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    exit(0);
  }
  expect_success(child);
}

TEST_F(Fork, ChildCallsInit_ConnectsBesideTheParent) {
  std::atomic<bool> stop{false};
  std::thread traffic([&] {
    for (int i = 0; !stop && !HasFatalFailure(); ++i) pair.exchange(i);
  });
  for (int round = 0; round < 3; ++round) {
    in_child([&] {
      NetCommunicator<Table> own(*table);
      NetPair<Table> own_pair(*table, own.context());
      ASSERT_NO_FATAL_FAILURE(own_pair.connect());
      for (int i = 0; i < 10; ++i) ASSERT_NO_FATAL_FAILURE(own_pair.exchange(i));
      pair.close();
      ASSERT_NO_FATAL_FAILURE(own_pair.exchange(11));
    });
  }
  stop = true;
  traffic.join();
}

TEST_F(Fork, GrandchildCallsInit_Connects) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << kSameNumber;
#endif
  in_child([&] {
    NetCommunicator<Table> own(*table);
    in_child([&] {
      int devices = -1;
      EXPECT_EQ(table->devices(&devices), abi::ncclSuccess);
      EXPECT_EQ(devices, 0);
      NetCommunicator<Table> grandchilds(*table);
      NetPair<Table> its_pair(*table, grandchilds.context());
      ASSERT_NO_FATAL_FAILURE(its_pair.connect());
      ASSERT_NO_FATAL_FAILURE(its_pair.exchange(1));
    });
  });
}

// Holds the thread that is inside init at the first line that it logs.
struct Gate {
  static inline std::atomic<bool> reached{false};
  static inline std::atomic<bool> open{false};

  static void log(abi::ncclDebugLogLevel, unsigned long, const char*, int, const char*, ...) {
    reached = true;
    EXPECT_TRUE(wait_until([] { return open.load(); }));
  }
};

// That thread has locks of hwloc and of the verbs library at times, too.
TEST_F(Fork, WhileAnotherThreadIsInsideInit_ChildIsRefusedInsteadOfHanging) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << kSameNumber;
#endif
  in_child([&] {
    void* context = nullptr;
    std::thread initialiser(
        [&] { EXPECT_EQ(plugin::init(*table, Gate::log, &context), abi::ncclSuccess); });
    ASSERT_TRUE(wait_until([] { return Gate::reached.load(); }));
    in_child([&] {
      int devices = -1;
      EXPECT_EQ(table->devices(&devices), abi::ncclSuccess);
      EXPECT_EQ(devices, 0);
      void* own = nullptr;
      EXPECT_EQ(plugin::init(*table, PluginLog::logger(), &own), abi::ncclInvalidUsage);
      EXPECT_THAT(PluginLog::warnings(),
                  ElementsAre(HasSubstr("forked while a thread of its parent was inside init")));
    });
    Gate::open = true;
    initialiser.join();
    EXPECT_EQ(table->finalize(context), abi::ncclSuccess);
  });
}

}  // namespace
}  // namespace gdr
