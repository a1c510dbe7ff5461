#include "tests/fuzz/target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/allocation_limit.h"
#include "transport/wire/wire.h"

namespace gdr::fuzz {
namespace {

// Seeds patch fields by their offsets. Where a field has moved, the seeds that its assertion names
// need the new one: see Input::patch(). In hello and reply, an offset counts from the frame's
// header.
namespace wire = transport::wire;
using wire::ClearToSend, wire::EndPoint, wire::FrameHeader, wire::PairStatement;
using wire::QpAddress, wire::RailAddress;
static_assert(sizeof(FrameHeader) == 12, "hello, reply");
static_assert(offsetof(FrameHeader, version) == 4, "hello, reply: other-version");
static_assert(offsetof(FrameHeader, kind) == 6, "hello: other-kind");
static_assert(offsetof(FrameHeader, body_bytes) == 8, "hello: too-large");
static_assert(offsetof(EndPoint, secret) == 0, "hello, reply: wrong-secret");
static_assert(offsetof(EndPoint, host) == 16, "reply: long-name");
static_assert(offsetof(EndPoint, qps) == 104, "hello: too-many-qps; reply: other-qps");
static_assert(offsetof(EndPoint, rails) == 106, "hello: too-many-rails");
static_assert(offsetof(EndPoint, qp) == 136,
              "hello: missing-rail, standby-alone; reply: impossible-qp");
static_assert(offsetof(QpAddress, number) == 0, "reply: impossible-qp");
static_assert(offsetof(QpAddress, rail) == 17, "hello: missing-rail");
static_assert(offsetof(QpAddress, standby) == 18, "hello: standby-alone");
static_assert(offsetof(EndPoint, rail) == 2696,
              "hello: impossible-mtu; reply: roce, unprintable-name");
static_assert(offsetof(RailAddress, hca) == 0, "reply: unprintable-name");
static_assert(offsetof(RailAddress, ethernet) == 87, "reply: roce");
static_assert(offsetof(RailAddress, mtu) == 88, "hello: impossible-mtu");
static_assert(offsetof(ClearToSend, address) == 0,
              "slots: far-address; rails: forged-slot; standby: forged-slot-while-held");
static_assert(offsetof(ClearToSend, bytes) == 8, "standby: smaller-slot-of-a-lost-chain");
static_assert(offsetof(ClearToSend, rkey) == 16, "slots: wrong-key");
static_assert(offsetof(ClearToSend, group_and_flags) == 52,
              "slots: group-that-changes; standby: forged-group-while-held");
static_assert(offsetof(PairStatement, serial_first) == 0, "statements: old-serial, torn");
static_assert(offsetof(PairStatement, step) == 4, "rails: forged-step, forged-serial");
static_assert(offsetof(PairStatement, pair) == 12, "kept_socket: unknown-pair; rails: forged-pair");
static_assert(offsetof(PairStatement, asks) == 14, "statements: asks");
static_assert(offsetof(PairStatement, arrived) == 16, "rails: forged-count");
static_assert(offsetof(PairStatement, status) == 24, "statements: unknown-status");
static_assert(offsetof(PairStatement, address.lid) == 42, "statements: other-address");

constexpr std::string_view kPrefix = "fuzz_";

constexpr Target kTargets[] = {
    {"arrivals", run_arrivals},     {"handle", run_handle},
    {"hello", run_hello},           {"kept_socket", run_kept_socket},
    {"rails", run_rails},           {"reply", run_reply},
    {"slots", run_slots},           {"standby", run_standby},
    {"statements", run_statements},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target& target_of(std::string_view program) {
  program = program.substr(program.find_last_of('/') + 1);
  for (const Target& target : kTargets) {
    if (program.starts_with(kPrefix) && program.substr(kPrefix.size()) == target.name) {
      return target;
    }
  }
  std::fprintf(stderr, "%s is not the name of a fuzz target\n", std::string(program).c_str());
  std::exit(2);
}

void run_once(const Target& target, std::span<const uint8_t> bytes) {
  testing::GTEST_FLAG(break_on_failure) = true;  // the shared parts of unit tests use EXPECT_*
  const AllocationLimit limit;
  target.run(Input(bytes.data(), bytes.size()));
}

void check(bool holds, std::string_view rule) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", std::string(rule).c_str());
  std::abort();
}

void check_text(std::string_view text) {
  check(text.size() < 4096, "a text is longer than 4 KiB");
  check(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }),
        "a text has characters that are not printable");
}

}  // namespace gdr::fuzz
