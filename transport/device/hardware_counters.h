// The hardware counters of an HCA's port, as the kernel shows them in sysfs, and which of them are
// about errors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gdr::transport {

// By name: {"local_ack_timeout_err", 3}.
using HardwareCounters = std::map<std::string, uint64_t>;

// Reads <ibdev_path>/ports/<port>/counters and hw_counters, which Linux documents in
// Documentation/ABI/stable/sysfs-class-infiniband. ibdev_path: of the HCA
// (ibv_device::ibdev_path). What cannot be read, or is not a number, is left
// out. For many counters the kernel asks the HCA's firmware, and waits for its answer: a call may
// block for as long as the driver takes to give a dead HCA up.
HardwareCounters read_hardware_counters(const std::string& ibdev_path, int port);

// Whether a counter that moves hints at a fault. Drivers name their counters as they like: mlx5 has
// "packet_seq_err", rxe "rcvd_seq_err", bnxt_re "seq_err_naks_rcvd", irdma "RetransSegs" and efa
// "retrans_timeout_events". So the name decides, by the words in it that mean errors. Traffic has
// none of these, nor have the signs of congestion ("np_cnp_sent", "port_xmit_wait"), which a
// healthy RoCE network shows, too. Left out are further those that follow from moving a queue pair
// to ERROR, as each connection does at its end (mlx5's "req_cqe_flush_error"), dropped management
// packets ("VL15_dropped") and delayed acknowledgements (rxe's "ack_deferred").
bool is_symptom(std::string_view name);

// What the symptoms moved by; those that did not are left out, and so is what only one of the two
// has. A counter that went back was reset.
HardwareCounters moved_symptoms(const HardwareCounters& before, const HardwareCounters& after);

// "link_downed +1, packet_seq_err +3"; "" for none.
std::string to_string(const HardwareCounters& moved);

}  // namespace gdr::transport
