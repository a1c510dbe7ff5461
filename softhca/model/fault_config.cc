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
      "port_down, port_up, port_flap, qp_error, device_fatal, device_removed, completion_error, "
      "reg_mr_refused, rate, modify_qp_refused, gid_change, lid_change, client_reregister, "
      "ack_lost, packets_lost or port_query_blocked";
  fields->choice<FaultKind>("kind",
                            {{"port_down", FaultKind::kPortDown},
                             {"port_up", FaultKind::kPortUp},
                             {"port_flap", FaultKind::kPortFlap},
                             {"qp_error", FaultKind::kQpError},
                             {"device_fatal", FaultKind::kDeviceFatal},
                             {"device_removed", FaultKind::kDeviceRemoved},
                             {"completion_error", FaultKind::kCompletionError},
                             {"reg_mr_refused", FaultKind::kRegMrRefused},
                             {"rate", FaultKind::kRate},
                             {"modify_qp_refused", FaultKind::kModifyQpRefused},
                             {"gid_change", FaultKind::kGidChange},
                             {"lid_change", FaultKind::kLidChange},
                             {"client_reregister", FaultKind::kClientReregister},
                             {"ack_lost", FaultKind::kAckLost},
                             {"packets_lost", FaultKind::kPacketsLost},
                             {"port_query_blocked", FaultKind::kPortQueryBlocked}},
                            kinds, &fault->kind);
  require(fields, "kind", kinds);
  const Json* name = fields->find("kind");
  if (name != nullptr && name->is_string()) fault->kind_name = *name;
}

void read_moment(JsonFields* fields, const std::string& path, FaultConfig* fault) {
  fields->number("at_s", 0, 1e6, &fault->at_s);
  fields->integer("after_bytes", 1, 1ull << 60, &fault->after_bytes);
  fields->integer("after_ops", 1, 1ull << 60, &fault->after_ops);
  if (const Json* event = fields->find("at_request")) {
    fields->note(read_event(*event, path + ".at_request", &fault->at_request.emplace()));
  }
  int given = 0;
  for (const char* name : {"at_s", "after_bytes", "after_ops", "at_request"}) {
    given += fields->find(name) != nullptr ? 1 : 0;
  }
  if (given > 1) fields->reject("after_bytes", "either this or at_s or after_ops or at_request");
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

void read_rate(JsonFields* fields, FaultConfig* fault) {
  fields->number("rate_gbps", 0, 1e5, &fault->rate_gbps);
  fields->number("share", 1e-6, 1, &fault->share);
  if (fields->find("rate_gbps") != nullptr && fields->find("share") != nullptr) {
    fields->reject("share", "either this or rate_gbps");
  }
}

void read_flap(JsonFields* fields, FaultConfig* fault) {
  fault->count = 1;
  fault->down_ms = fault->up_ms = 100;
  fields->number("down_ms", 0.1, 1e6, &fault->down_ms);
  fields->number("up_ms", 0.1, 1e6, &fault->up_ms);
  fields->integer("count", 1, 1000000, &fault->count);
}

// Statuses that a requester gets from the responder's NAK, which the responder sends instead of
// completing the request.
bool from_nak(ibv_wc_status status) {
  return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
         status == IBV_WC_REM_OP_ERR;
}

void read_completion_error(JsonFields* fields, FaultConfig* fault) {
  fields->choice<ibv_wc_status>("status",
                                {{"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
                                 {"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
                                 {"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
                                 {"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
                                 {"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
                                 {"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},
                                 {"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
                                 {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
                                 {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
                                 {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
                                 {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
                                 {"REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR},
                                 {"FATAL_ERR", IBV_WC_FATAL_ERR},
                                 {"RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR},
                                 {"GENERAL_ERR", IBV_WC_GENERAL_ERR}},
                                "an ibv_wc_status without IBV_WC_, such as \"RETRY_EXC_ERR\"",
                                &fault->status);
  require(fields, "at_request", "the request that fails");
  if (!fault->at_request) return;
  const EventConfig& event = *fault->at_request;
  if (event.moment == Moment::kAcknowledged) {
    fields->reject("at_request", "a moment before \"acknowledged\", when the request is complete");
  }
  if (event.moment == Moment::kReceived &&
      (from_nak(fault->status) || event.end == End::kResponder)) {
    fields->reject("at_request", "\"begun\" or \"arrived\" for an error that the responder finds");
  }
  if (event.end == End::kResponder && (event.opcodes & kReceivedOpcodes) == 0) {
    fields->reject("at_request", "requests that consume a receive, for an error of the receive");
  }
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
      return read_rate(fields, fault);
    case FaultKind::kPortFlap:
      return read_flap(fields, fault);
    case FaultKind::kDeviceFatal:
    case FaultKind::kDeviceRemoved:
      return fields->boolean("silent", &fault->silent);
    case FaultKind::kCompletionError:
      return read_completion_error(fields, fault);
    case FaultKind::kModifyQpRefused:
      return read_refused_change(fields, fault);
    case FaultKind::kGidChange:
      return read_gid(fields, ethernet, fault);
    case FaultKind::kLidChange:
      return read_lid(fields, ethernet, fault);
    case FaultKind::kAckLost:
      if (fault->at_request && fault->at_request->end == End::kResponder) {
        fields->reject("at_request", "the end \"requester\", where acknowledgements are awaited");
      }
      fields->integer("count", 0, UINT32_MAX, &fault->count);
      return fields->number("late_us", 0, 1e9, &fault->late_us);
    case FaultKind::kPortQueryBlocked:
      if (fields->find("at_s") == nullptr) fields->reject("at_s", "a time; it is required");
      return fields->number("for_ms", 1, 1e6, &fault->for_ms);
    case FaultKind::kPacketsLost:
      if (fields->find("at_s") == nullptr) fields->reject("at_s", "a time; it is required");
      fields->integer("from_bytes", 0, 4096, &fault->from_bytes);
      return fields->number("for_ms", 0, 1e9, &fault->for_ms);
  }
}

}  // namespace

void read_fault_fields(JsonFields* fields, const std::string& path, bool ethernet,
                       FaultConfig* fault) {
  read_kind(fields, fault);
  read_moment(fields, path, fault);
  read_fields_of_kind(fields, ethernet, fault);
}

}  // namespace softhca
