#include "transport/device/hardware_counters.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/device/counter_files.h"

namespace gdr::transport {
namespace {

TEST(HardwareCountersTest, Errors_AreSymptoms) {
  for (const char* name :
       {// mlx5
        "local_ack_timeout_err", "packet_seq_err", "implied_nak_seq_err", "out_of_sequence",
        "out_of_buffer", "duplicate_request", "rnr_nak_retry_err", "req_transport_retries_exceeded",
        "roce_adp_retrans_to", "rx_icrc_encapsulated", "req_remote_invalid_request",
        // rxe
        "retry_exceeded_err", "completer_retry_err", "out_of_seq_request", "link_downed",
        // the PMA of InfiniBand
        "symbol_error", "link_error_recovery", "port_rcv_errors", "port_xmit_discards",
        "local_link_integrity_errors", "excessive_buffer_overrun_errors",
        // irdma
        "RetransSegs", "ip4InDiscards", "ip4OutNoRoutes", "ip4InTruncatedPkts", "rxVlanErrors",
        // bnxt_re
        "to_retransmits", "seq_err_naks_rcvd", "max_retry_exceeded", "missing_resp", "bad_resp_err",
        "dup_req", "res_irrq_oflow", "oos_drop_count",
        // efa
        "rx_drops", "retrans_timeout_events", "unresponsive_remote_events",
        "impaired_remote_conn_events"}) {
    EXPECT_TRUE(is_symptom(name)) << name;
  }
}

TEST(HardwareCountersTest, TrafficAndCongestion_AreNoSymptoms) {
  for (const char* name :
       {"rx_write_requests", "np_cnp_sent",      "rp_cnp_handled",     "np_ecn_marked_roce_packets",
        "roce_slow_restart", "sent_pkts",        "rcvd_pkts",          "rdma_sends",
        "port_xmit_data",    "port_rcv_packets", "port_xmit_wait",     "unicast_rcv_packets",
        "ip4InOctets",       "iwRdmaBnd",        "cnpHandled",         "RxECNMrkd",
        "active_qps",        "watermark_qps",    "tx_roce_only_bytes", "pacing_reschedule",
        "tx_bytes",          "rdma_read_wrs",    "recv_bytes"}) {
    EXPECT_FALSE(is_symptom(name)) << name;
  }
}

TEST(HardwareCountersTest, WhatHasAnErrorInItsNameAndIsNone_IsLeftOut) {
  for (const char* name : {"ack_deferred", "req_cqe_flush_error", "resp_cqe_flush_error",
                           "VL15_dropped", "lifespan"}) {
    EXPECT_FALSE(is_symptom(name)) << name;
  }
}

TEST(HardwareCountersTest, PortWithCounters_BothFoldersAreRead) {
  CounterFiles files;
  files.set("mlx5_0", "counters/symbol_error", 7);
  files.set("mlx5_0", "hw_counters/packet_seq_err", 18446744073709551615u);
  files.set("mlx5_0", "hw_counters/sent_pkts", 5);
  EXPECT_EQ(read_hardware_counters(files.hca("mlx5_0"), 1),
            (HardwareCounters{{"packet_seq_err", 18446744073709551615u}, {"symbol_error", 7}}));
  EXPECT_TRUE(read_hardware_counters(files.hca("mlx5_0"), 2).empty());
}

TEST(HardwareCountersTest, FilesWithoutANumberOrNoFolder_NoCounters) {
  CounterFiles files;
  files.set("a", "counters/symbol_error", "N/A (no PMA)");
  files.set("a", "counters/link_downed", "");
  files.set("a", "counters/port_rcv_errors", "12 or so");
  files.set("a", "counters/port_xmit_discards", "99999999999999999999999");
  std::filesystem::create_directories(files.port("a") / "counters" / "excess_errors");
  EXPECT_TRUE(read_hardware_counters(files.hca("a"), 1).empty());
  EXPECT_TRUE(read_hardware_counters("/does/not/exist", 1).empty());
}

TEST(HardwareCountersTest, SomeMoved_OnlyTheseAndByHowMuch) {
  const HardwareCounters before{
      {"packet_seq_err", 4}, {"link_downed", 1}, {"sent_pkts", 1}, {"rx_drops", 4}};
  const HardwareCounters after{
      {"packet_seq_err", 7}, {"link_downed", 1}, {"sent_pkts", 9}, {"symbol_error", 7}};
  EXPECT_EQ(moved_symptoms(before, after), (HardwareCounters{{"packet_seq_err", 3}}));
}

TEST(HardwareCountersTest, CounterWentBack_WasReset) {
  const auto moved = [](uint64_t before, uint64_t after) {
    return moved_symptoms({{"link_downed", before}}, {{"link_downed", after}});
  };
  EXPECT_EQ(moved(1000, 3), (HardwareCounters{{"link_downed", 3}}));
  EXPECT_EQ(moved(1000, 0), HardwareCounters{});
}

TEST(HardwareCountersTest, SeveralMoved_TextNamesThem) {
  EXPECT_EQ(to_string(HardwareCounters{}), "");
  EXPECT_EQ(to_string({{"link_downed", 1}, {"packet_seq_err", 3}}),
            "link_downed +1, packet_seq_err +3");
}

}  // namespace
}  // namespace gdr::transport
