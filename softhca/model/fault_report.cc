#include "softhca/model/fault_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace softhca {

namespace {

// As "at_request" names them.
const char* name_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return "write";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "write_with_imm";
    case IBV_WR_RDMA_READ:
      return "read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "atomic";
    default:
      return "send";
  }
}

const char* name_of(Moment moment) {
  switch (moment) {
    case Moment::kBegun:
      return "begun";
    case Moment::kArrived:
      return "arrived";
    case Moment::kReceived:
      return "received";
    case Moment::kAcknowledged:
      return "acknowledged";
  }
  return "";
}

}  // namespace

void print_fault(const FaultConfig& fault, const RequestMoment* request) {
  nlohmann::ordered_json line = {
      {"kind", fault.kind_name}, {"device", fault.device}, {"port", fault.port}};
  if (request != nullptr) {
    line["opcode"] = name_of(request->opcode);
    line["moment"] = name_of(request->moment);
    line["wr_id"] = request->wr_id;
  }
  fprintf(stderr, "softhca: fault happens: %s\n", line.dump().c_str());
}

}  // namespace softhca
