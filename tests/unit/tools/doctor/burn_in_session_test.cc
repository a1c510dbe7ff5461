#include "tools/doctor/burn_in_session.h"

#include <gmock/gmock.h>

#include <future>

#include "tests/unit/tools/doctor/made_host.h"
#include "tests/unit/tools/doctor/made_perftest.h"
#include "tools/doctor/burn_in_perftest_run.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

BurnInCase host_case() {
  BurnInCase one;
  one.subject = "rail 0 mlx5_0:1 host memory";
  one.end.hca = "mlx5_0";
  return one;
}

BurnInCase session_gpu_case() {
  BurnInCase one = host_case();
  one.end.gpu = 0;
  one.end.gpu_address = "0000:1a:00.0";
  one.end.cuda_number = 0;
  return one;
}

BurnInSession local_session(const MadeHost& host, const MadePerftest& perftest,
                            const BurnInCase& one = host_case()) {
  return BurnInSession::open(host.host, {one}, {{}, BurnInWith::kAuto, perftest.path()}).value();
}

Error error_of(const MadePerftest& perftest) {
  const MadeHost host;
  return local_session(host, perftest).measure(host_case()).error();
}

TEST(BurnInSession, Local_RunsBothEnds) {
  const MadeHost host;
  const MadePerftest perftest;
  BurnInSession session = local_session(host, perftest);
  EXPECT_EQ(session.measured_by(), "perftest 6.06");
  const auto measured = session.measure(host_case());
  ASSERT_TRUE(measured.has_value()) << measured.error().text;
  EXPECT_EQ(measured->gbits, 180.25);
  EXPECT_EQ(measured->latency_us, 1.5);
  EXPECT_EQ(measured->by, "ib_write_bw 6.06");
  EXPECT_THAT(perftest.runs(),
              AllOf(HasSubstr("ib_write_bw -F --ib-dev=mlx5_0"), HasSubstr("127.0.0.1\n"),
                    HasSubstr("ib_write_lat -F --ib-dev=mlx5_0")));
}

// Rail 0 sends to rail 1.
BurnInCase session_pair_case() {
  BurnInCase one = host_case();
  one.receiver = one.end;
  one.receiver->hca = "mlx5_1";
  one.receiver->device = 1;
  return one;
}

TEST(BurnInSession, TwoRails_ReceiverListensAndSenderConnects) {
  const MadeHost host;
  const MadePerftest perftest;
  const auto measured =
      local_session(host, perftest, session_pair_case()).measure(session_pair_case());
  ASSERT_TRUE(measured.has_value()) << measured.error().text;
  EXPECT_EQ(measured->unreached, "");
  EXPECT_EQ(measured->gbits, 180.25);
  EXPECT_EQ(measured->latency_us, 1.5);
  for (const std::string program : {"ib_write_bw", "ib_write_lat"}) {
    EXPECT_THAT(perftest.runs(), HasSubstr(program + " -F --ib-dev=mlx5_1 "));
    EXPECT_THAT(perftest.runs(), ContainsRegex(program + " -F --ib-dev=mlx5_0 [^\n]* 127.0.0.1\n"));
  }
  EXPECT_THAT(perftest.runs(), Not(ContainsRegex("mlx5_1 [^\n]* 127.0.0.1\n")));
}

TEST(BurnInSession, RailsThatDoNotReachEachOther_AreAskedOnce) {
  const MadeHost host;
  MadePerftest perftest("6.20", "  --use_cuda=<id> x\n");
  perftest.set_mode("error  Unable to Connect the HCA's through the link");
  BurnInSession session = local_session(host, perftest, session_pair_case());
  BurnInCase with_gpu = session_pair_case();
  with_gpu.receiver->gpu = 0;
  with_gpu.receiver->cuda_number = 0;
  for (const BurnInCase& one : {session_pair_case(), with_gpu}) {
    const auto measured = session.measure(one);
    ASSERT_TRUE(measured.has_value()) << measured.error().text;
    EXPECT_THAT(measured->unreached, HasSubstr("Unable to Connect the HCA's"));
  }
  EXPECT_THAT(perftest.runs(), Not(HasSubstr("ib_write_bw")));
  EXPECT_THAT(perftest.runs(),
              Not(ContainsRegex("ib_write_lat.*\n.*ib_write_lat.*\n.*ib_write_lat")));
  // Another pair is asked again.
  BurnInCase back = session_pair_case();
  std::swap(back.end, *back.receiver);
  perftest.set_mode("well");
  EXPECT_EQ(session.measure(back)->unreached, "");
}

// What keeps the programs from running says nothing of the fabric.
TEST(BurnInSession, ProbeThatCannotRun_IsAnError) {
  const MadeHost host;
  MadePerftest perftest;
  perftest.set_mode("error Couldn't allocate MR");
  const auto measured =
      local_session(host, perftest, session_pair_case()).measure(session_pair_case());
  ASSERT_FALSE(measured.has_value());
  EXPECT_EQ(measured.error().code, Code::kSystem);
  EXPECT_THAT(measured.error().text, HasSubstr("Couldn't allocate MR"));
}

TEST(BurnInSession, GpuThatCudaHidesAtTheReceiver_IsNotMeasured) {
  const MadeHost host;
  const MadePerftest perftest("6.20", "  --use_cuda=<id> x\n");
  BurnInCase hidden = session_pair_case();
  hidden.receiver->gpu = 0;
  const auto measured = local_session(host, perftest, hidden).measure(hidden);
  ASSERT_FALSE(measured.has_value());
  EXPECT_THAT(measured.error().text, HasSubstr("CUDA cannot be used"));
}

TEST(BurnInSession, GpuMemory_TakesSendLatency) {
  const MadeHost host;
  const MadePerftest perftest("6.20", "  --use_cuda=<id> x\n  --use_cuda_bus_id=<id> x\n");
  BurnInSession session = local_session(host, perftest, session_gpu_case());
  const auto measured = session.measure(session_gpu_case());
  ASSERT_TRUE(measured.has_value()) << measured.error().text;
  EXPECT_THAT(perftest.runs(), HasSubstr("ib_send_lat"));
  EXPECT_THAT(perftest.runs(), HasSubstr("--use_cuda_bus_id=0000:1a:00.0"));
}

TEST(BurnInSession, GpuThatCudaHides_IsNotMeasured) {
  const MadeHost host;
  BurnInCase hidden = session_gpu_case();
  hidden.end.cuda_number = {};
  const MadePerftest with("6.20", "  --use_cuda=<id> x\n"), without;
  for (const MadePerftest* perftest : {&with, &without}) {
    const auto measured = local_session(host, *perftest, hidden).measure(hidden);
    ASSERT_FALSE(measured.has_value());
    EXPECT_EQ(measured.error().code, Code::kSystem);
    EXPECT_THAT(measured.error().text, HasSubstr("CUDA cannot be used"));
    EXPECT_EQ(perftest->runs(), "");
  }
}

TEST(BurnInSession, GpuMemoryWithoutLatency_HasTheBandwidth) {
  const MadeHost host;
  MadePerftest perftest("6.20", "  --use_cuda=<id> x\n");
  perftest.remove("ib_send_lat");
  BurnInSession session = local_session(host, perftest, session_gpu_case());
  const auto measured = session.measure(session_gpu_case());
  ASSERT_TRUE(measured.has_value()) << measured.error().text;
  EXPECT_EQ(measured->gbits, 180.25);
  EXPECT_EQ(measured->latency_us, 0);
}

TEST(BurnInSession, PerftestWithoutCuda_LeavesGpuMemoryToPerf) {
  const MadeHost host;
  const MadePerftest perftest;
  const auto session = BurnInSession::open(host.host, {host_case(), session_gpu_case()},
                                           {{}, BurnInWith::kAuto, perftest.path()});
  EXPECT_EQ(session->measured_by(),
            "perftest 6.06 with host memory, nccl-gdr perf with GPU memory, as perftest was built "
            "without CUDA");
}

TEST(BurnInSession, WithoutPerftest_SaysWhyPerfMeasures) {
  const MadeHost host;
  const auto session = BurnInSession::open(host.host, {host_case()}, {{}, BurnInWith::kAuto, ""});
  EXPECT_EQ(session->measured_by(), "nccl-gdr perf, as ib_write_bw is not in PATH");
  const auto asked = BurnInSession::open(host.host, {host_case()}, {{}, BurnInWith::kPerftest, ""});
  ASSERT_FALSE(asked.has_value());
  EXPECT_THAT(asked.error().text, HasSubstr("--burn-in-with perf"));
}

TEST(BurnInSession, ProgramThatFails_IsReportedWithItsErrorAndTheFix) {
  MadePerftest perftest;
  perftest.set_mode("error Couldn't allocate MR");
  const Error error = error_of(perftest);
  EXPECT_EQ(error.code, Code::kSystem);
  EXPECT_THAT(error.text, AllOf(HasSubstr("ib_write_bw ended with status 1: Couldn't allocate MR"),
                                HasSubstr("Fix: memory of the host: raise the limit")));
}

TEST(BurnInSession, TransferThatFails_IsAFailure) {
  MadePerftest perftest;
  perftest.set_mode(
      "error  Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81");
  const Error error = error_of(perftest);
  EXPECT_EQ(error.code, Code::kRemote);
  EXPECT_THAT(error.text, HasSubstr("Failed status 12"));
}

TEST(BurnInSession, ErrorWithStatusZero_IsAnError) {
  MadePerftest perftest;
  perftest.set_mode("exit0 Couldn't allocate MR");
  EXPECT_THAT(error_of(perftest).text,
              AllOf(HasSubstr("no result for messages of 4194304 bytes was printed"),
                    HasSubstr("Couldn't allocate MR")));
  perftest.set_mode("silent");
  EXPECT_THAT(error_of(perftest).text, HasSubstr("no result"));
}

// Both ends by the same program and arguments.
PerftestRun bandwidth_run(const ChildSpec& spec) {
  return {PerftestProgram::kWriteBandwidth, spec, spec};
}

ChildSpec bandwidth_at(const MadePerftest& perftest, int port) {
  return {perftest.path() + "/ib_write_bw", {"--port=" + std::to_string(port)}};
}

TEST(PerftestRun, ProgramThatHangs_IsEnded) {
  MadePerftest perftest;
  perftest.set_mode("hang");
  const int port = free_tcp_port();
  PerftestRun run = bandwidth_run(bandwidth_at(perftest, port));
  ASSERT_TRUE(run.start_server(port).has_value());
  ASSERT_TRUE(run.start_client("127.0.0.1", port).has_value());
  const auto result = run.finish([] { return false; }, std::chrono::seconds(1));
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().text, HasSubstr("ib_write_bw did not end within 1 s"));
}

PerftestRun server_at(const MadePerftest& perftest, int port) {
  PerftestRun run = bandwidth_run(bandwidth_at(perftest, port));
  EXPECT_TRUE(run.start_server(port).has_value());
  return run;
}

TEST(PerftestRun, OtherEndThatNeverConnects_NamesTheTcpPort) {
  const MadePerftest perftest;
  const int port = free_tcp_port();
  PerftestRun run = server_at(perftest, port);
  const auto result = run.finish([] { return false; }, std::chrono::seconds(1));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kInvalidUsage);
  EXPECT_THAT(result.error().text,
              HasSubstr("Fix: let TCP port " + std::to_string(port) + " through the firewall"));
}

TEST(PerftestRun, ConnectionWithAnotherMachine_IsNotTheFirewall) {
  MadePerftest perftest;
  perftest.set_mode("hang");
  const int port = free_tcp_port();
  PerftestRun server = server_at(perftest, port);
  PerftestRun client = bandwidth_run(bandwidth_at(perftest, port));
  ASSERT_TRUE(client.start_client("127.0.0.1", port).has_value());
  const auto result = server.finish([] { return false; }, std::chrono::seconds(3));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kSystem);
  EXPECT_THAT(result.error().text, HasSubstr("did not end within 3 s without an error"));
}

TEST(PerftestRun, OtherEndThatIsFirst_IsTheReason) {
  const MadePerftest perftest;
  PerftestRun run = server_at(perftest, free_tcp_port());
  const auto result =
      run.finish([] { return true; }, std::chrono::seconds(600), std::chrono::seconds(1));
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().text, HasSubstr("ib_write_bw was ended 1 s after the other end"));
}

TEST(PerftestRun, ServerThatDoesNotListen_IsAnError) {
  PerftestRun silent = bandwidth_run({"/bin/sleep", {"1000"}});
  const Status waited = silent.start_server(free_tcp_port(), std::chrono::milliseconds(100));
  ASSERT_FALSE(waited.has_value());
  EXPECT_THAT(waited.error().text, HasSubstr("does not listen at TCP port"));
  PerftestRun failing =
      bandwidth_run({"/bin/sh", {"-c", "echo ' Port number 1 state is Down' >&2; exit 1"}});
  const Status ended = failing.start_server(free_tcp_port());
  ASSERT_FALSE(ended.has_value());
  EXPECT_THAT(ended.error().text,
              HasSubstr("state is Down. Fix: nccl-gdr doctor --check port-state"));
}

TEST(IsListening, TableOfTheKernel_IsReadByPortAndState) {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
      "   0: 00000000:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000\n"
      "   1: 0100007F:4854 0100007F:1234 01 00000000:00000000 00:00000000 00000000  1000\n"
      "   2: 00000000000000000000000000000000:4855 00000000000000000000000000000000:0000 0A 0\n";
  EXPECT_TRUE(is_listening(table, 0x4853));
  EXPECT_FALSE(is_listening(table, 0x4854));
  EXPECT_TRUE(is_listening(table, 0x4855));
  EXPECT_FALSE(is_listening("", 0x4853));
  EXPECT_FALSE(has_connection(table, 0x4853));
  EXPECT_TRUE(has_connection(table, 0x4854));
  EXPECT_TRUE(has_connection(table, 0x1234));
}

// A doctor on each of two machines, which are this one.
struct TwoSessions {
  TwoSessions(const MadePerftest& first, const MadePerftest& second) {
    const int port = free_tcp_port();
    const auto open = [this, port](int rank, const std::string& path) {
      const BurnInPeer peer{.is_local = false, .address = "127.0.0.1", .port = port, .rank = rank};
      return BurnInSession::open(host.host, {host_case()}, {peer, BurnInWith::kAuto, path});
    };
    auto opening = std::async(std::launch::async, open, 0, first.path());
    auto other = open(1, second.path());
    auto one = opening.get();
    if (one) listening.emplace(std::move(*one));
    if (other) connecting.emplace(std::move(*other));
  }

  std::pair<Result<BurnInMeasurement>, Result<BurnInMeasurement>> measure() {
    auto first = std::async(std::launch::async, [this] { return listening->measure(host_case()); });
    Result<BurnInMeasurement> second = connecting->measure(host_case());
    return {first.get(), std::move(second)};
  }

  MadeHost host;
  std::optional<BurnInSession> listening, connecting;
};

TEST(BurnInSession, TwoMachines_HaveTheSameResult) {
  const MadePerftest perftest;
  TwoSessions sessions(perftest, perftest);
  ASSERT_TRUE(sessions.listening && sessions.connecting);
  for (int i = 0; i < 2; ++i) {
    const auto [first, second] = sessions.measure();
    ASSERT_TRUE(first.has_value()) << first.error().text;
    ASSERT_TRUE(second.has_value()) << second.error().text;
    EXPECT_EQ(first->gbits, 180.25);
    EXPECT_EQ(second->gbits, 180.25);
    EXPECT_EQ(second->latency_us, 1.5);
  }
}

TEST(BurnInSession, ErrorOnOneMachine_IsSeenOnBoth) {
  const MadePerftest well;
  MadePerftest wrong;
  TwoSessions sessions(well, wrong);
  wrong.remove("ib_write_bw");
  const auto [first, second] = sessions.measure();
  ASSERT_FALSE(first.has_value());
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().text, HasSubstr("cannot run"));
  EXPECT_THAT(first.error().text, HasSubstr("on the other machine: cannot run"));
  // The next measurement is in step again.
  const auto [third, fourth] = sessions.measure();
  EXPECT_FALSE(third.has_value());
  EXPECT_FALSE(fourth.has_value());
}

TEST(BurnInSession, ErrorsOfBothMachines_AreJoinedWithTheUsefulFix) {
  MadePerftest first, second;
  first.set_mode("error something odd");
  second.set_mode("error Couldn't allocate MR " + std::string(2000, 'x'));
  TwoSessions sessions(first, second);
  const auto [general, useful] = sessions.measure();
  ASSERT_FALSE(general.has_value());
  ASSERT_FALSE(useful.has_value());
  EXPECT_THAT(general.error().text,
              AllOf(HasSubstr("something odd; on the other machine: ib_write_bw ended"),
                    HasSubstr("xxx.... Fix: memory of the host: raise the limit")));
  EXPECT_LT(general.error().text.size(), 900u);
  EXPECT_THAT(useful.error().text,
              AllOf(HasSubstr("xxx; on the other machine: ib_write_bw ended"),
                    HasSubstr("something odd. Fix: memory of the host: raise the limit")));
}

TEST(BurnInSession, MachineWithoutRails_IsMetAndNamed) {
  const MadeHost host;
  const int port = free_tcp_port();
  const auto open = [&](int rank, const std::vector<BurnInCase>& cases) {
    const BurnInPeer peer{.is_local = false, .address = "127.0.0.1", .port = port, .rank = rank};
    return BurnInSession::open(host.host, cases, {peer, BurnInWith::kPerf, ""}).error().text;
  };
  auto without = std::async(std::launch::async, [&] { return open(0, {}); });
  EXPECT_THAT(open(1, {host_case()}), HasSubstr("the other machine has no usable rail"));
  EXPECT_THAT(without.get(), HasSubstr("this machine has no usable rail"));
}

TEST(BurnInSession, OtherVersionsOfPerftest_LeaveItToPerf) {
  TwoSessions sessions(MadePerftest("6.06"), MadePerftest("6.20"));
  ASSERT_TRUE(sessions.listening && sessions.connecting);
  EXPECT_EQ(sessions.listening->measured_by(),
            "nccl-gdr perf, as perftest is 6.06 here and 6.20 on the other machine");
}

}  // namespace
}  // namespace gdr::tools::doctor
