// Whole messages between the ends of a wire, with every byte, every size and the bytes around the
// buffers verified.
#pragma once

#include <vector>

#include "tools/conformance/test_connection.h"
#include "tools/conformance/traffic.h"

namespace gdr::tools {

struct Message {
  size_t bytes = 0;
  size_t capacity = 0;  // of the receive buffer; raised to bytes when below
  int tag = 0;
};

// One receive; sends go in send_order (indices of slots; empty: as they are).
struct Group {
  std::vector<Message> slots;
  std::vector<size_t> send_order;
};

Group single(size_t bytes, size_t capacity = 0, int tag = 0);

struct ExchangeStyle {
  TrafficStyle traffic;
  size_t misalign = 0;  // of every buffer
};

// Every group is in flight at once, as far as the plugin takes them. Called on all ranks of the
// wire; does whatever this rank's ends ask for.
void exchange(Session& session, const Wire& wire, const std::vector<Group>& groups,
              ExchangeStyle style = {});

// The same over several wires at once, each carrying the same groups.
void exchange_all(Session& session, const std::vector<Wire>& wires,
                  const std::vector<Group>& groups, ExchangeStyle style = {});

// 0, 1, odd, around pages and clear-to-send limits, above 4 MiB, and `random_count` random ones.
std::vector<size_t> interesting_sizes(Random& random, size_t random_count);

}  // namespace gdr::tools
