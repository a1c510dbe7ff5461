// What the targets of the data path share: a connected sender and receiver over the fake of verbs,
// in one of the forms that connections have.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "tests/fuzz/target.h"
#include "tests/unit/transport/rails_pair.h"

namespace gdr::fuzz {

// The first byte of an input: the form of the connection.
enum : uint8_t {
  kFourQps = 1,
  kSplit = 2,         // messages over all QPs
  kSeparateEnds = 4,  // adaptive routing above 64 bytes
  kSeveralRails = 8,  // two and one that stands by, whose pairs are recovered
  kSmallWrites = 16,  // 512 bytes at most
};

// Host memory of whole pages, registered for one comm. A registration covers whole pages, so that a
// peer which names memory beside that of a buffer must not find other objects there.
struct PageBuffer {
  PageBuffer(const transport::Comm& comm, const transport::MemoryOptions& options, size_t bytes)
      : data(transport::map_pages<char>(bytes)) {
    const transport::MemoryRegion region{reinterpret_cast<uintptr_t>(data.get()), bytes, false};
    transport::Registrar registrar(transport::shared(options));
    memory = registrar.register_memory(comm.connection().registration_scope(), region).value();
  }
  transport::ReceiveBuffer receive(size_t bytes, int tag = 0) const {
    return {data.get(), bytes, tag, memory.get()};
  }

  transport::Pages<char> data;
  std::unique_ptr<transport::MemoryHandle> memory;
};

using Slots = std::array<transport::wire::ClearToSend, transport::wire::kSlots>;

// Checks that what a sender writes is in the receiver's tables or in a buffer that a slot names,
// one that it has now or had when it took a message that it holds.
inline void check_target(const fake_verbs::Posted& work, uint64_t tables, const Slots& slots,
                         const std::vector<Slots>& slots_of_held) {
  const auto is_within = [&](uint64_t begin, uint64_t bytes) {
    const uint64_t offset = work.remote_address - begin;
    return offset <= bytes && work.bytes <= bytes - offset;
  };
  if (work.bytes == 0 || is_within(tables, sizeof(transport::wire::Tables))) return;
  const auto is_named = [&](const Slots& some) {
    return std::ranges::any_of(some, [&](const transport::wire::ClearToSend& slot) {
      return is_within(slot.address, slot.bytes);
    });
  };
  check(is_named(slots) || std::ranges::any_of(slots_of_held, is_named),
        "the sender writes to memory that no slot names");
}

// Without a watcher from here on, so that the same input does the same each time.
inline void stop_watching(transport::RailsPair& pair) {
  pair.watcher->remove(&pair.sender->connection().link());
  pair.watcher->remove(&pair.receiver->connection().link());
}

struct CommRun {
  static constexpr size_t kBufferBytes = 16384;

  explicit CommRun(uint8_t form)
      : one((form & kSeveralRails) != 0 ? nullptr : connect_one(form)),
        several((form & kSeveralRails) != 0 ? connect_several(form) : nullptr) {}

  static std::unique_ptr<transport::CommPair> connect_one(uint8_t form) {
    return std::make_unique<transport::CommPair>(options_of(form), /*roce=*/false,
                                                 transport::local_socket_pair(), most_of(form));
  }
  static std::unique_ptr<transport::RailsPair> connect_several(uint8_t form) {
    auto pair = std::make_unique<transport::RailsPair>(
        2, 1, options_of(form), transport::local_socket_pair(),
        transport::RailHcas{.max_msg_sz = most_of(form)});
    stop_watching(*pair);
    return pair;
  }
  static uint32_t most_of(uint8_t form) { return (form & kSmallWrites) != 0 ? 512 : 1u << 30; }

  static transport::TransportOptions options_of(uint8_t form) {
    transport::TransportOptions options = transport::test_options();
    options.connection.qps_per_connection = (form & kFourQps) != 0 ? 4 : 1;
    options.connection.split_data_on_qps = (form & kSplit) != 0;
    options.connection.adaptive_routing = (form & kSeparateEnds) != 0;
    options.connection.adaptive_routing_threshold = 64;
    return options;
  }

  // Tests a request once. Returns whether it is to be tested again.
  static bool test(transport::Request* request, transport::Outcome* outcome) {
    *outcome = transport::test_once(request);
    return outcome->alive && !outcome->done;
  }

  // What the sender has posted since FakeVerbs::forget_posted().
  std::vector<fake_verbs::Posted> posted_by_sender() const {
    const transport::wire::EndPoint end = transport::end_of(sender);
    std::vector<fake_verbs::Posted> some = fabric.verbs.posted();
    std::erase_if(some, [&](const fake_verbs::Posted& work) {
      const auto is_its = [&](const transport::wire::QpAddress& qp) {
        return qp.number == work.qp_num;
      };
      return std::none_of(end.qp.begin(), end.qp.begin() + end.qps, is_its);
    });
    return some;
  }

  // One of them, by the form.
  std::unique_ptr<transport::CommPair> one;
  std::unique_ptr<transport::RailsPair> several;
  transport::Fabric& fabric = one ? static_cast<transport::Fabric&>(*one) : *several;
  transport::SendComm& sender = one ? *one->sender : *several->sender;
  transport::ReceiveComm& receiver = one ? *one->receiver : *several->receiver;
  PageBuffer from{sender, fabric.options.memory, kBufferBytes};
  PageBuffer to{receiver, fabric.options.memory, kBufferBytes};
};

}  // namespace gdr::fuzz
