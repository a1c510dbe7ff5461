#include "softhca/model/event_config.h"

namespace softhca {

namespace {

constexpr uint32_t bit_of(ibv_wr_opcode opcode) { return 1u << opcode; }

}  // namespace

gdr::Status read_event(const Json& json, const std::string& path, EventConfig* event) {
  JsonFields fields(json, path);
  fields.choice<uint32_t>(
      "opcode",
      {{"any", UINT32_MAX},
       {"write", bit_of(IBV_WR_RDMA_WRITE)},
       {"write_with_imm", bit_of(IBV_WR_RDMA_WRITE_WITH_IMM)},
       {"send", bit_of(IBV_WR_SEND) | bit_of(IBV_WR_SEND_WITH_IMM)},
       {"read", bit_of(IBV_WR_RDMA_READ)},
       {"atomic", bit_of(IBV_WR_ATOMIC_CMP_AND_SWP) | bit_of(IBV_WR_ATOMIC_FETCH_AND_ADD)}},
      "\"any\", \"write\", \"write_with_imm\", \"send\", \"read\" or \"atomic\"", &event->opcodes);
  fields.integer("nth", 1, 1ull << 60, &event->nth);
  fields.choice<Moment>("moment",
                        {{"begun", Moment::kBegun},
                         {"arrived", Moment::kArrived},
                         {"received", Moment::kReceived},
                         {"acknowledged", Moment::kAcknowledged}},
                        "\"begun\", \"arrived\", \"received\" or \"acknowledged\"", &event->moment);
  fields.choice<End>("end", {{"requester", End::kRequester}, {"responder", End::kResponder}},
                     "\"requester\" or \"responder\"", &event->end);
  fields.string(
      "device", [](const std::string& name) { return !name.empty(); }, "the name of a device",
      &event->device);
  fields.integer("port", 1, kMaxPorts, &event->port);
  return fields.result();
}

}  // namespace softhca
