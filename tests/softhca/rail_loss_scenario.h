// What one run of rail_loss does, chosen by its seed alone, so that both processes and every
// repetition of a run make the same of it. In a run of soak.py the seed chooses the traffic, and
// the script the rest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace gdr::rail_loss {

using Random = std::mt19937_64;

// One buffer of a grouped receive, and the message that goes into it.
struct Part {
  int tag;
  size_t bytes;  // of the message
  size_t room;   // of the buffer; at least `bytes`
  size_t from;   // offsets in the memory of the sender and of the receiver
  size_t to;
  uint32_t number;  // of the message in its connection
};

struct Group {
  std::vector<Part> parts;         // as they are received
  std::vector<size_t> send_order;  // indices of parts
};

// All that one connection carries. Connection c sends from end c to the other one.
struct Traffic {
  std::vector<Group> groups;
  size_t messages = 0;
  size_t send_bytes = 0;  // of the memory at either end
  size_t receive_bytes = 0;
};

// Guard bytes around each buffer.
constexpr size_t kGuard = 64;

enum class MemoryKind : uint8_t { kHost, kDmaBuf, kPeermem };

// A fault of the software HCA at one end. Of soak.py also one of the kinds "sockets" and "stop".
struct Fault {
  int end = 0;
  int rail = 0;
  nlohmann::json json;
  // -1: the fault is part of the configuration. Otherwise it happens once this end has completed so
  // many messages of both connections.
  int at_message = -1;
  bool after_pause = false;  // at_message counts from the pause
};

// Of a run whose faults all happen. Otherwise it completes.
enum class Expect : uint8_t {
  kCompletes,
  kMayFail,  // completes, or an error at both ends: both rails may be lost at a time
  kFails,    // one connection ends with an error at both ends, the other one completes
};

struct Scenario {
  uint64_t seed = 0;
  std::string kind;  // row of the table
  Expect expect = Expect::kCompletes;
  // One of them is in a warning of each end that reports an error.
  std::vector<std::string> reasons;
  int table = 12;  // version of NCCL's network table
  int rails = 2;
  int merged = 0;       // rails that are one device, 0 or 2 and more; the others stand by
  int queue_pairs = 1;  // per rail
  bool split = false;
  bool adaptive = false;
  bool ethernet = false;
  double rate_gbps = 0;
  MemoryKind memory = MemoryKind::kHost;
  // Half-way, both ends wait until a rail that is up again is used again.
  bool pauses = false;
  // The kept sockets are shut down once an end has completed so many messages; -1: they are not.
  int socket_lost_at = -1;
  // An end that is slow does not call the plugin for a while after one completion of so many.
  std::array<int, 2> slow_one_in{0, 0};
  std::vector<Fault> faults;
  size_t messages = 100;  // of a connection, at least
  std::array<Traffic, 2> traffic;
};

Scenario make_scenario(uint64_t seed);
// That of soak.py.
Scenario read_scenario(const nlohmann::json& json);
// Chooses `kind`, `faults`, `expect`, `reasons` and whatever of the configuration these need.
void choose_faults(Random& random, Scenario* scenario);
// For rail_loss.py, which configures the processes of both ends by it. Without the traffic.
nlohmann::json describe(const Scenario& scenario);

}  // namespace gdr::rail_loss
