// The fuzz targets: for each kind of input from a peer a function that gives arbitrary ones to the
// code that takes them, and checks what has to hold. README.md explains how they are run.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/input.h"

namespace gdr::fuzz {

// An input of the corpus. Its bytes are the same in every process.
struct Seed {
  const char* name;
  Script script;
};
using Seeds = std::vector<Seed>;

struct Target {
  const char* name;
  void (*run)(Input input);
  Seeds (*seeds)();
};

// The targets, each in a file of its name.
void run_arrivals(Input input);
Seeds arrivals_seeds();
void run_handle(Input input);
Seeds handle_seeds();
void run_hello(Input input);
Seeds hello_seeds();
void run_kept_socket(Input input);
Seeds kept_socket_seeds();
void run_rails(Input input);
Seeds rails_seeds();
void run_reply(Input input);
Seeds reply_seeds();
void run_slots(Input input);
Seeds slots_seeds();
void run_standby(Input input);
Seeds standby_seeds();
void run_statements(Input input);
Seeds statements_seeds();

std::span<const Target> targets();
// The target that a program of that path runs: "fuzz_" and the target's name. Ends the process
// where there is none.
const Target& target_of(std::string_view program);

// Runs a target once. Ends the process where it allocates more than any input may cost.
void run_once(const Target& target, std::span<const uint8_t> bytes);

// Ends the process with the rule that does not hold.
void check(bool holds, std::string_view rule);
// A text that a peer had a part in, and that goes to logs and to the other peer: not longer than a
// frame's, and without control characters.
void check_text(std::string_view text);

}  // namespace gdr::fuzz
