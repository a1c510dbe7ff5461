// Sends and receives whole messages over connections and verifies every byte, every reported size,
// and the bytes around the buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/conformance/test_connection.h"
#include "tools/conformance/traffic.h"

namespace gdr::tools {

struct Message {
  size_t bytes = 0;
  size_t capacity = 0;  // of the receive buffer; at least `bytes` are used
  int tag = 0;
};

// The buffers of one receive. The messages are sent in send_order, which has indices of slots; if
// it is empty, in the order of the slots.
struct Group {
  std::vector<Message> slots;
  std::vector<size_t> send_order;
};

// A group of one message.
Group single(size_t bytes, size_t capacity = 0, int tag = 0);

struct ExchangeStyle {
  TrafficStyle traffic;
  size_t misalign = 0;  // bytes past an aligned address, for every buffer
  // Makes the phandle of each buffer; if it is empty, Traffic makes them.
  std::function<void*()> phandle = {};
};

// Posts all groups at once, as far as the plugin accepts them, and fails the case unless everything
// arrives correctly. All ranks of the connection call this; each sends or receives at its own ends.
void exchange(Session& session, const TestConnection& connection, const std::vector<Group>& groups,
              ExchangeStyle style = {});

// Does the same over several connections at once; each transfers the same groups.
void exchange_all(Session& session, const std::vector<TestConnection>& connections,
                  const std::vector<Group>& groups, ExchangeStyle style = {});

// Returns sizes of 0, 1, odd ones, ones near powers of two and above 4 MiB, and random ones.
std::vector<size_t> interesting_sizes(Random& random, size_t random_count);

// The frame of the cases with one connection from rank 0 to rank 1: opens the plugin and the
// connection, and waits until the body has ended at both ends.
template <void (*kBody)(Session&, TestConnection&)>
void one_way(Session& session) {
  session.open();
  TestConnection connection = open_connection(session, 0, 1);
  kBody(session, connection);
  session.meet("all data has arrived");
}

// One message from a process to itself, by plain calls of the table, so that many threads may do it
// at once: listens, connects, sends a message whose data depends on `number`, verifies it and
// closes. Returns an empty text, or what failed.
std::string lone_message(Net& net, void* context, int dev, uint64_t number, double timeout_seconds);

}  // namespace gdr::tools
