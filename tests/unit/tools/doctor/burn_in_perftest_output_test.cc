#include "tools/doctor/burn_in_perftest_output.h"

#include <gmock/gmock.h>

namespace gdr::tools::doctor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What the programs printed over the software HCA on two busy CPUs: those of Debian 12 (perftest
// 4.5+0.17-1, whose programs call themselves 6.06), and those of perftest 24.01.0-0.38, the release
// in Ubuntu 24.04, built from its source (6.20). By its source, 26.04 prints the same columns; the
// unit without --report_gbits became MiB.
constexpr char kBandwidth606[] =
    R"(---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : softhca0
 Number of qps   : 1		Transport type : IB
 Connection type : RC		Using SRQ      : OFF
 PCIe relax order: ON
 ibv_wr* API     : OFF
 TX depth        : 128
 CQ Moderation   : 1
 Mtu             : 4096[B]
 Link type       : IB
 Max inline data : 0[B]
 rdma_cm QPs	 : OFF
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0x01 QPN 0x8000 PSN 0x22c22d RKey 0x2000001 VAddr 0x007fec96cb3000
 remote address: LID 0x01 QPN 0x4000 PSN 0xa062a0 RKey 0x1000001 VAddr 0x007f95fc66f000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 4194304    208              0.00               2.98   		   0.000089
---------------------------------------------------------------------------------------
)";
constexpr char kLatency606[] =
    R"( Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0x01 QPN 0x8000 PSN 0x7c842f RKey 0x2000001 VAddr 0x00556e2e348000
 remote address: LID 0x01 QPN 0x4000 PSN 0xe39694 RKey 0x1000001 VAddr 0x00560284f53000
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       1000          2.23           55483.56      2.42     	       513.21      	3499.30		22006.65 		55483.56
---------------------------------------------------------------------------------------
)";

constexpr char kBandwidth620[] =
    R"( WARNING: BW peak won't be measured in this run.
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : softhca0
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0x01 QPN 0x8000 PSN 0xc7f4e0 RKey 0x2000001 VAddr 0x007f82b319f000
 remote address: LID 0x01 QPN 0x4000 PSN 0x344c64 RKey 0x1000001 VAddr 0x007fed5b979000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 4194304    3632             0.00               60.93  		   0.001816
---------------------------------------------------------------------------------------
)";
constexpr char kLatency620[] =
    R"( #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       1000          1.47           4015.59      1.50     	       57.25       	466.76 		3993.56 		4015.59
---------------------------------------------------------------------------------------
)";

TEST(PerftestOutput, Bandwidth_IsTheAverage) {
  EXPECT_EQ(perftest_gbits(kBandwidth606, 4194304).value(), 2.98);
  EXPECT_EQ(perftest_gbits(kBandwidth620, 4194304).value(), 60.93);
}

TEST(PerftestOutput, Latency_IsTheTypicalOne) {
  EXPECT_EQ(perftest_latency_us(kLatency606, 8).value(), 2.42);
  EXPECT_EQ(perftest_latency_us(kLatency620, 8).value(), 1.5);
}

std::string bandwidth_table(const std::string& unit, const std::string& row) {
  return " #bytes     #iterations    BW peak[" + unit + "]    BW average[" + unit +
         "]   MsgRate[Mpps]\n" + row + "\n";
}

// Both are 2^20 bytes: earlier releases write MB, later ones MiB.
TEST(PerftestOutput, BandwidthInMebibytes_IsConverted) {
  const std::string row = " 4194304    100    0.00    1000.00    0.000250";
  for (const char* unit : {"MB/sec", "MiB/sec"}) {
    EXPECT_NEAR(perftest_gbits(bandwidth_table(unit, row), 4194304).value(), 8.388608, 1e-9)
        << unit;
  }
}

TEST(PerftestOutput, ScientificNotationAndMoreColumns_AreRead) {
  const std::string output =
      " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]    "
      "CPU_Util[%]\n 4194304  1e+03  0.00  1.8e+02  0.005372  3.5\n";
  EXPECT_EQ(perftest_gbits(output, 4194304).value(), 180);
}

TEST(PerftestOutput, WarningsAroundTheHeader_AreSkipped) {
  const std::string output =
      " WARNING: BW peak won't be measured in this run.\n4194304 is the size of messages\n" +
      bandwidth_table("Gb/sec",
                      "Conflicting CPU frequency values detected: 1200.000000 != 3500.000000. CPU "
                      "Frequency is not max.\n 4194304    100    0.00    99.50    0.000250");
  EXPECT_EQ(perftest_gbits(output, 4194304).value(), 99.5);
}

TEST(PerftestOutput, TableOfADuration_HasNoTypicalLatency) {
  EXPECT_FALSE(
      perftest_latency_us(" #bytes        #iterations       t_avg[usec]    tps average\n"
                          " 8       1000            1.50        300000.00\n",
                          8));
}

TEST(PerftestOutput, NoResult_IsAnError) {
  for (const std::string& output :
       {std::string(), std::string(" 4194304    100    0.00    99.50    0.000250\n"),
        bandwidth_table("Gb/sec", ""), bandwidth_table("Gb/sec", " 4194304    100"),
        bandwidth_table("Gb/sec", " 65536    100    0.00    99.50    0.000250"),
        bandwidth_table("Gb/sec", " 4194304    100    0.00    99,50    0.000250")}) {
    const auto result = perftest_gbits(output, 4194304);
    ASSERT_FALSE(result.has_value()) << output;
    EXPECT_THAT(result.error().text, HasSubstr("no result for messages of 4194304 bytes"));
  }
}

// perftest divides by the CPU's frequency, which it does not find on a busy machine.
TEST(PerftestOutput, ResultThatIsNoNumber_IsAnErrorWithAFix) {
  for (const char* number : {"inf", "nan", "-nan", "0.00", "-1"}) {
    const std::string row = std::string(" 4194304    100    0.00    ") + number + "    0.000250";
    const auto result = perftest_gbits(bandwidth_table("Gb/sec", row), 4194304);
    ASSERT_FALSE(result.has_value()) << number;
    EXPECT_THAT(result.error().text, HasSubstr("Fix: run it again")) << number;
  }
}

TEST(PerftestError, CauseStandsBeforeItsConsequences) {
  const Error error = perftest_error(
      "ib_write_bw ended with status 1", "",
      "ethernet_read_keys: Couldn't read remote address\n Unable to read to socket/rdma_cm\n"
      " Failed to exchange data between server and clients\nCouldn't allocate MR\n"
      "failed to create mr\nFailed to create MR\n Couldn't create IB resources\n");
  EXPECT_THAT(error.text, AllOf(HasSubstr("status 1: Couldn't allocate MR; failed to create mr"),
                                Not(HasSubstr("remote address")),
                                HasSubstr("Fix: memory of the host: raise the limit of locked")));
}

TEST(PerftestError, WarningsAndFrames_AreLeftOut) {
  const Error error = perftest_error(
      "ib_write_bw ended with status 1", "",
      "Conflicting CPU frequency values detected: 1 != 2. CPU Frequency is not max.\n-----\n"
      "Couldn't listen to port 29501\n Unable to open file descriptor for socket connection");
  EXPECT_EQ(error.text,
            "ib_write_bw ended with status 1: Couldn't listen to port 29501; Unable to open file "
            "descriptor for socket connection. Fix: another program has the TCP port: give "
            "--burn-in another one, ADDRESS:PORT");
}

TEST(PerftestError, ErrorsOfCuda_AreInTheOutput) {
  const Error error = perftest_error("ib_write_bw ended with status 1",
                                     "initializing CUDA\ncuInit(0) returned 100\n", "");
  EXPECT_THAT(error.text, AllOf(HasSubstr("cuInit(0) returned 100"), HasSubstr("cuda-driver")));
}

TEST(PerftestError, Silence_IsReportedWithAFix) {
  EXPECT_EQ(perftest_error("ib_write_bw was ended by signal 11 (Segmentation fault)", "", "").text,
            "ib_write_bw was ended by signal 11 (Segmentation fault) without an error. Fix: use "
            "--burn-in-with perf, and see whether it fails, too");
}

TEST(PerftestError, ControlCharacters_AreRemoved) {
  EXPECT_THAT(perftest_error("x", "", "bad \x1b[31m text").text, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace gdr::tools::doctor
