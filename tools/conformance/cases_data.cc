// C2x: sizes, buffers and grouped receives.
#include <algorithm>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
std::vector<size_t> shuffled(Random& random, size_t count) {
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

void every_size(Session& s, TestConnection& connection) {
  for (size_t size : interesting_sizes(s.random(), 40)) exchange(s, connection, {single(size)});
}

// NCCL posts receives of its whole buffer slot, and the message is often smaller. test() must
// report the true size: NCCL decides by it whether it must flush (src/transport/net.cc,
// recvProxyProgress).
void larger_buffer(Session& s, TestConnection& connection) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{4096}, size_t{70001}}) {
    for (size_t extra : {size_t{1}, size_t{63}, size_t{4096}, size_t{1000000}}) {
      exchange(s, connection, {single(size, size + extra)});
    }
  }
}

// NCCL passes null where it does not need the sizes, as for a flush (src/transport/net.cc).
void null_sizes(Session& s, TestConnection& connection) {
  ExchangeStyle style;
  style.traffic.null_sizes = true;
  exchange(s, connection, {single(0), single(17, 100), single(90000)}, style);
}

// User buffers that were registered by ncclCommRegister begin at any address.
void unaligned(Session& s, TestConnection& connection) {
  for (size_t misalign : {1, 2, 3, 4, 8, 31, 63}) {
    ExchangeStyle style;
    style.misalign = misalign;
    exchange(s, connection, {single(1), single(130), single(4095), single(300001)}, style);
  }
}

// Returns the device's maxRecvs; skips the case if it has no grouped receives.
int group_limit(Session& s) {
  int limit = s.properties(s.dev()).max_recvs;
  if (limit < 2) s.skip("maxRecvs is 1");
  return limit;
}

// Makes a grouped receive with distinct tags, and sends in a random order. Tags are not
// consecutive, so that a plugin cannot take them for indices.
Group random_group(Random& random, size_t buffers, size_t largest) {
  Group group;
  // NCCL's tags are ranks, so that groups in flight mostly have the same ones.
  int base = random.below(4) == 0 ? static_cast<int>(random.below(1u << 20)) : 0;
  std::vector<size_t> tags = shuffled(random, buffers);
  for (size_t i = 0; i < buffers; ++i) {
    Message message;
    message.bytes = random.below(largest);
    message.capacity = message.bytes + random.below(3) * random.below(1000);
    message.tag = base + static_cast<int>(tags[i]) * 7;
    group.slots.push_back(message);
  }
  group.send_order = shuffled(random, buffers);
  return group;
}

void grouped_tags(Session& s, TestConnection& connection) {
  int limit = group_limit(s);
  for (int n = 1; n <= limit; ++n) {
    for (int round = 0; round < 4; ++round) {
      exchange(s, connection, {random_group(s.random(), static_cast<size_t>(n), 5000)});
    }
  }
}

// Covers many of the patterns of empty and other messages: an empty message has no data write, so a
// plugin may lose or double its completion.
void grouped_zeroes(Session& s, TestConnection& connection) {
  auto limit = static_cast<size_t>(group_limit(s));
  for (size_t mask = 0; mask<(size_t{1} << limit); mask += limit> 4 ? 5 : 1) {
    Group group;
    for (size_t i = 0; i < limit; ++i) {
      size_t bytes = (mask >> i & 1) != 0 ? 100 * (i + 1) : 0;
      group.slots.push_back(Message{bytes, 1000, static_cast<int>(i)});
    }
    group.send_order = shuffled(s.random(), limit);
    exchange(s, connection, {group});
  }
}

// With several groups in flight, a send must match the oldest group that has its tag open.
void grouped_in_flight(Session& s, TestConnection& connection) {
  auto limit = static_cast<size_t>(group_limit(s));
  for (int round = 0; round < 4; ++round) {
    std::vector<Group> groups;
    for (int i = 0; i < 20; ++i) {
      groups.push_back(random_group(s.random(), 1 + s.random().below(limit), 20000));
    }
    exchange(s, connection, groups);
  }
}

void soak(Session& s) {
  s.open();
  auto limit = static_cast<size_t>(s.properties(s.dev()).max_recvs);
  std::vector<TestConnection> connections = open_connections(s, {{0, 1}, {1, 0}, {0, 1}});
  for (int round = 0; round < 12; ++round) {
    std::vector<Group> groups;
    for (int i = 0; i < 25; ++i) {
      size_t largest = size_t{1} << (1 + s.random().below(17));
      groups.push_back(random_group(s.random(), 1 + s.random().below(limit), largest));
    }
    exchange_all(s, connections, groups);
  }
  s.meet("all data has arrived");
}
}  // namespace

ConformanceCases data_cases() {
  return {
      {"C20-sizes", "messages of 0, 1, odd, random and more than 4 MiB bytes arrive whole", 2,
       &one_way<every_size>},
      {"C21-larger-buffer",
       "a receive buffer may be larger than the message: test reports the true size and the rest "
       "is untouched",
       2, &one_way<larger_buffer>},
      {"C22-null-sizes", "the sizes pointer of test may be null", 2, &one_way<null_sizes>},
      {"C23-unaligned", "buffers may have any alignment", 2, &one_way<unaligned>},
      {"C24-grouped-tags",
       "in a receive of n = 1..max_recvs buffers each message arrives in the buffer of its tag, in "
       "any order of the sends",
       2, &one_way<grouped_tags>},
      {"C26-grouped-zeroes", "a grouped receive may contain empty messages among others", 2,
       &one_way<grouped_zeroes>},
      {"C27-grouped-in-flight",
       "sends match grouped receives in the order of posting, with many in flight", 2,
       &one_way<grouped_in_flight>},
      {"C28-soak",
       "random sizes, tags and groups on several connections in both directions arrive whole", 2,
       &soak},
  };
}

}  // namespace gdr::tools
