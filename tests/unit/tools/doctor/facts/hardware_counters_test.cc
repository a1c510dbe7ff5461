#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temp_folder.h"
#include "tools/doctor/facts/counters.h"

namespace gdr::tools::doctor {
namespace {

// Files of hardware counters, as sysfs has them, in a folder of their own.
struct CounterFiles {
  // The ibdev_path of an HCA.
  std::string hca(const std::string& name) const { return root + "/" + name; }
  // The folder of port 1.
  std::filesystem::path port(const std::string& name) const {
    return std::filesystem::path(hca(name)) / "ports" / "1";
  }
  // counter: with its folder, "hw_counters/packet_seq_err".
  void set(const std::string& name, const std::string& counter, const std::string& text) const {
    const std::filesystem::path file = port(name) / counter;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void set(const std::string& name, const std::string& counter, uint64_t value) const {
    set(name, counter, std::to_string(value));
  }

  const TempFolder folder;
  const std::string root = folder.path();
};

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

}  // namespace
}  // namespace gdr::tools::doctor
