// The exported functions of libibverbs that need no device: names of enumerators, rates, and
// reading of sysfs files.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

struct Rate {
  ibv_rate rate;
  int multiple;  // of 2.5 Gb/s as in rdma-core, from 400 Gb/s on of the nominal rate; 0 for none
  int mbps;
};

constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},       {IBV_RATE_5_GBPS, 2, 5000},
    {IBV_RATE_10_GBPS, 4, 10000},       {IBV_RATE_20_GBPS, 8, 20000},
    {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},      {IBV_RATE_80_GBPS, 32, 80000},
    {IBV_RATE_120_GBPS, 48, 120000},    {IBV_RATE_14_GBPS, 0, 14062},
    {IBV_RATE_56_GBPS, 0, 56250},       {IBV_RATE_112_GBPS, 0, 112500},
    {IBV_RATE_168_GBPS, 0, 168750},     {IBV_RATE_25_GBPS, 0, 25781},
    {IBV_RATE_100_GBPS, 0, 103125},     {IBV_RATE_200_GBPS, 0, 206250},
    {IBV_RATE_300_GBPS, 0, 309375},     {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},      {IBV_RATE_400_GBPS, 160, 425000},
    {IBV_RATE_600_GBPS, 240, 637500},   {IBV_RATE_800_GBPS, 320, 850000},
    {IBV_RATE_1200_GBPS, 480, 1275000},
};

template <size_t N>
const char* name_of(const char* const (&names)[N], int value, const char* unknown) {
  return value >= 0 && static_cast<size_t>(value) < N ? names[value] : unknown;
}

}  // namespace

extern "C" {

const char* ibv_node_type_str(ibv_node_type type) {
  static const char* const kNames[] = {"unknown",           "InfiniBand channel adapter",
                                       "InfiniBand switch", "InfiniBand router",
                                       "iWARP NIC",         "usNIC",
                                       "usNIC UDP",         "unspecified"};
  return name_of(kNames, type, "unknown");
}

const char* ibv_port_state_str(ibv_port_state state) {
  static const char* const kNames[] = {"PORT_NOP",   "PORT_DOWN",   "PORT_INIT",
                                       "PORT_ARMED", "PORT_ACTIVE", "PORT_ACTIVE_DEFER"};
  return name_of(kNames, state, "invalid state");
}

const char* ibv_event_type_str(ibv_event_type event) {
  static const char* const kNames[] = {"CQ error",
                                       "QP fatal error",
                                       "QP request error",
                                       "QP access error",
                                       "communication established",
                                       "send queue drained",
                                       "path migrated",
                                       "path migration failed",
                                       "device fatal error",
                                       "port active",
                                       "port error",
                                       "LID changed",
                                       "P_Key changed",
                                       "SM changed",
                                       "SRQ error",
                                       "SRQ limit reached",
                                       "last WQE reached",
                                       "client reregistration",
                                       "GID changed",
                                       "WQ fatal error"};
  return name_of(kNames, event, "unknown event");
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  static const char* const kNames[] = {"success",
                                       "local length error",
                                       "local QP operation error",
                                       "local EE context operation error",
                                       "local protection error",
                                       "Work Request Flushed Error",
                                       "memory window bind error",
                                       "bad response error",
                                       "local access error",
                                       "remote invalid request error",
                                       "remote access error",
                                       "remote operation error",
                                       "transport retry counter exceeded",
                                       "RNR retry counter exceeded",
                                       "local RDD violation error",
                                       "remote invalid RD request",
                                       "remote operation aborted",
                                       "invalid EE context number",
                                       "invalid EE context state",
                                       "fatal error",
                                       "response timeout error",
                                       "general error",
                                       "tag matching error",
                                       "tag matching rendezvous incomplete"};
  return name_of(kNames, status, "unknown");
}

int ibv_rate_to_mult(ibv_rate rate) {
  for (const Rate& entry : kRates) {
    if (entry.rate == rate && entry.multiple != 0) return entry.multiple;
  }
  return -1;
}

ibv_rate mult_to_ibv_rate(int multiple) {
  for (const Rate& entry : kRates) {
    if (entry.multiple == multiple && multiple != 0) return entry.rate;
  }
  return IBV_RATE_MAX;
}

int ibv_rate_to_mbps(ibv_rate rate) {
  for (const Rate& entry : kRates) {
    if (entry.rate == rate) return entry.mbps;
  }
  return -1;
}

ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& entry : kRates) {
    if (entry.mbps == mbps) return entry.rate;
  }
  return IBV_RATE_MAX;
}

const char* ibv_get_sysfs_path() { return "/sys"; }

// Reads a file without its final newline. Returns its length, or -1.
int ibv_read_sysfs_file(const char* folder, const char* name, char* buffer, size_t size) {
  char path[512];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= static_cast<int>(sizeof path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read(fd, buffer, size);
  close(fd);
  if (got <= 0) return -1;
  if (buffer[got - 1] == '\n') {
    --got;
  } else if (static_cast<size_t>(got) == size) {
    return -1;
  }
  buffer[got] = '\0';
  return static_cast<int>(got);
}

int ibv_fork_init() { return 0; }

ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

}  // extern "C"
