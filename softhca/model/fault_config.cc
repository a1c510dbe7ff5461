#include "softhca/model/fault_config.h"

#include <arpa/inet.h>

#include <cerrno>

#include "softhca/model/limits.h"

namespace softhca {

namespace {

bool is_ipv6(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

void require(JsonFields* fields, const char* name, const std::string& accepted) {
  if (fields->find(name) == nullptr) fields->reject(name, accepted + "; it is required");
}

void read_kind(JsonFields* fields, FaultConfig* fault) {
  const std::string kinds =
      "port_down, port_up, qp_error, reg_mr_refused, rate, modify_qp_refused, gid_change, "
      "lid_change, client_reregister or ack_lost";
  fields->choice<FaultKind>("kind",
                            {{"port_down", FaultKind::kPortDown},
                             {"port_up", FaultKind::kPortUp},
                             {"qp_error", FaultKind::kQpError},
                             {"reg_mr_refused", FaultKind::kRegMrRefused},
                             {"rate", FaultKind::kRate},
                             {"modify_qp_refused", FaultKind::kModifyQpRefused},
                             {"gid_change", FaultKind::kGidChange},
                             {"lid_change", FaultKind::kLidChange},
                             {"client_reregister", FaultKind::kClientReregister},
                             {"ack_lost", FaultKind::kAckLost}},
                            kinds, &fault->kind);
  require(fields, "kind", kinds);
}

void read_moment(JsonFields* fields, FaultConfig* fault) {
  fields->number("at_s", 0, 1e6, &fault->at_s);
  fields->integer("after_bytes", 1, 1ull << 60, &fault->after_bytes);
  fields->integer("after_ops", 1, 1ull << 60, &fault->after_ops);
  int given = 0;
  for (const char* name : {"at_s", "after_bytes", "after_ops"}) {
    given += fields->find(name) != nullptr ? 1 : 0;
  }
  if (given > 1) fields->reject("after_bytes", "either this or at_s or after_ops");
}

// A GID of the kind that the port's link layer has.
void read_gid(JsonFields* fields, bool ethernet, FaultConfig* fault) {
  fields->integer("gid_index", 0, kMaxGids - 1, &fault->gid_index);
  require(fields, "gid_index", "an index of the table, from 0 to 15");
  std::string gid = "::";
  fields->string("gid", is_ipv6, "an IPv6 address, such as \"::ffff:10.0.0.1\"", &gid);
  inet_pton(AF_INET6, gid.c_str(), fault->gid.gid.raw);
  if (ethernet) {
    fault->gid.type = IBV_GID_TYPE_ROCE_V2;
    fields->choice<ibv_gid_type>(
        "gid_type", {{"RoCE v1", IBV_GID_TYPE_ROCE_V1}, {"RoCE v2", IBV_GID_TYPE_ROCE_V2}},
        "\"RoCE v1\" or \"RoCE v2\" on Ethernet", &fault->gid.type);
  } else {
    fault->gid.type = IBV_GID_TYPE_IB;
    fields->choice<ibv_gid_type>("gid_type", {{"IB", IBV_GID_TYPE_IB}}, "\"IB\" on InfiniBand",
                                 &fault->gid.type);
  }
}

void read_lid(JsonFields* fields, bool ethernet, FaultConfig* fault) {
  fields->integer("lid", 1, kMaxUnicastLid, &fault->lid);
  require(fields, "lid", "a LID");
  if (ethernet) fields->reject("kind", "lid_change only on InfiniBand");
}

void read_refused_change(JsonFields* fields, FaultConfig* fault) {
  fault->error = ETIMEDOUT;
  fault->count = 1;
  fields->integer("errno", 1, 133, &fault->error);
  fields->integer("count", 0, UINT32_MAX, &fault->count);
  fields->choice<ibv_qp_state>("to",
                               {{"INIT", IBV_QPS_INIT}, {"RTR", IBV_QPS_RTR}, {"RTS", IBV_QPS_RTS}},
                               "\"INIT\", \"RTR\" or \"RTS\"", &fault->to);
}

// The fields of other kinds stay unread, so that they are reported as unknown.
void read_fields_of_kind(JsonFields* fields, bool ethernet, FaultConfig* fault) {
  switch (fault->kind) {
    case FaultKind::kPortDown:
    case FaultKind::kPortUp:
    case FaultKind::kQpError:
    case FaultKind::kClientReregister:
      return;
    case FaultKind::kRegMrRefused:
      fault->error = ENOMEM;
      return fields->integer("errno", 1, 133, &fault->error);
    case FaultKind::kRate:
      return fields->number("rate_gbps", 0, 1e5, &fault->rate_gbps);
    case FaultKind::kModifyQpRefused:
      return read_refused_change(fields, fault);
    case FaultKind::kGidChange:
      return read_gid(fields, ethernet, fault);
    case FaultKind::kLidChange:
      return read_lid(fields, ethernet, fault);
    case FaultKind::kAckLost:
      fields->integer("count", 0, UINT32_MAX, &fault->count);
      return fields->number("late_us", 0, 1e9, &fault->late_us);
  }
}

}  // namespace

void read_fault_fields(JsonFields* fields, bool ethernet, FaultConfig* fault) {
  read_kind(fields, fault);
  read_moment(fields, fault);
  read_fields_of_kind(fields, ethernet, fault);
}

}  // namespace softhca
