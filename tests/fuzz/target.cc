#include "tests/fuzz/target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/allocation_limit.h"

namespace gdr::fuzz {
namespace {

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
