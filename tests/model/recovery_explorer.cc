// Explores the recovery of pairs within bounds that are given on the command line, and prints the
// states that were found, or the steps to a violation. For bounds that take longer than a test may.
//
// usage: recovery_explorer [name=number ...]
//   e.g. recovery_explorer messages=2 chunks=2 failures=2 repairs=1 mutation=0
// --help lists the names.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/model/recovery_model.h"

namespace gdr::model {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();
constexpr int kUint8 = std::numeric_limits<uint8_t>::max();  // what RecoveryState counts up to

struct Settings {
  Bounds bounds;
  int mutation = 0;
  int states = 16'000;  // thousands. With all they need, about 4 GB
  bool deadlocks = true;
  int walks = 0;
  int seed = 1;
};

// A name of the command line. `least` and `most` are those of a number.
struct Option {
  const char* name;
  std::variant<int*, bool*> value;
  int least;
  int most;
  const char* text;
};

std::vector<Option> options_of(Settings* settings) {
  Bounds& bounds = settings->bounds;
  return {
      {"pairs", &bounds.pairs, 1, kMaxPairs, "of the connection, without that of after_a_loss"},
      {"messages", &bounds.messages, 1, kMaxMessages, "that are sent"},
      {"chunks", &bounds.chunks, 1, kMaxChunks, "of each message"},
      {"slots", &bounds.slots, 1, kMaxSlots, "of the ring"},
      {"outstanding", &bounds.outstanding, 1, kMaxSlots, "receives"},
      {"moves", &bounds.moves, 0, 1, "of clear-to-send, between living pairs"},
      {"failures", &bounds.failures, 0, kUint8, "of any kind"},
      {"repairs", &bounds.repairs, 0, kUint8, "of links"},
      {"epochs", &bounds.epochs, 1, kUint8, "of a pair: it is revived once less at most"},
      {"after_a_loss", &bounds.after_a_loss, 0, 1, "begin after the loss of a further pair"},
      {"after_a_return", &bounds.after_a_return, 0, 1, "begin after pair 0 has returned"},
      {"during_a_return", &bounds.during_a_return, 0, 1, "begin where pair 0 may return"},
      {"socket", &bounds.socket, 0, 1, "the kept socket carries statements, at first"},
      {"tables", &bounds.tables, 0, 1, "other pairs carry statements"},
      {"queue_pair_errors", &bounds.queue_pair_errors, 0, 1, "failures of one QP"},
      {"sender_fails", &bounds.sender_fails, 0, 1, "those at the sender, too"},
      {"silent_failures", &bounds.silent_failures, 0, 1, "those without an event, too"},
      {"link_losses", &bounds.link_losses, 0, 1, "failures of a link"},
      {"hca_losses", &bounds.hca_losses, 0, 1, "failures of the receiver's HCA"},
      {"socket_losses", &bounds.socket_losses, 0, 1, "the loss of the socket"},
      {"socket_replacements", &bounds.socket_replacements, 0, 1,
       "by another, with what it carries"},
      {"ports_flap", &bounds.ports_flap, 0, 1, "instead: each end loses another pair at once"},
      {"mutation", &settings->mutation, 0, kMutations - 1, "the rule that is broken, see below"},
      {"states", &settings->states, 0, kAny, "thousands at most, 250 KB each; 0: all"},
      {"deadlocks", &settings->deadlocks, 0, 1, "look for states without a way to an end"},
      {"walks", &settings->walks, 0, kAny, "random walks instead of all states; 0: none"},
      {"seed", &settings->seed, 0, kAny, "of the walks"},
  };
}

int value_of(const Option& option) {
  const auto* number = std::get_if<int*>(&option.value);
  return number != nullptr ? **number : static_cast<int>(*std::get<bool*>(option.value));
}

void print_help(const std::vector<Option>& options) {
  std::printf("usage: recovery_explorer [name=number ...]\n\n");
  for (const Option& option : options) {
    const std::string range =
        std::to_string(option.least) +
        (option.most == kAny ? " or more" : " to " + std::to_string(option.most));
    std::printf("  %-18s %-10s %5d  %s\n", option.name, range.c_str(), value_of(option),
                option.text);
  }
  std::printf("\nThe last number of a line is the default. Mutations:\n\n");
  for (int i = 0; i < kMutations; ++i) {
    std::printf("  %2d  %s\n", i, to_string(static_cast<Mutation>(i)));
  }
}

// Returns whether it is one of the options, with a number in its range.
bool read_word(std::string_view word, const std::vector<Option>& options) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  for (const Option& option : options) {
    if (word.substr(0, equals) != option.name) continue;
    int number = 0;
    const char* end = word.data() + word.size();
    const auto [last, error] = std::from_chars(word.data() + equals + 1, end, number);
    if (error != std::errc() || last != end) return false;
    if (number < option.least || number > option.most) return false;
    if (auto* value = std::get_if<int*>(&option.value)) {
      **value = number;
    } else {
      *std::get<bool*>(option.value) = number != 0;
    }
    return true;
  }
  return false;
}

int report(const std::string& violation, const std::vector<RecoveryModel::Step>& trace) {
  if (violation.empty()) return 0;
  std::printf("%s", to_text(violation, trace).c_str());
  return 1;
}

int search(const Settings& settings) {
  const auto mutation = static_cast<Mutation>(settings.mutation);
  const RecoveryModel model(settings.bounds, mutation);
  if (settings.walks != 0) {
    const auto walked = walk(model, static_cast<uint64_t>(settings.seed), settings.walks);
    std::printf("%s: %zu walks, %zu steps\n", to_string(mutation), walked.walks, walked.steps);
    return report(walked.violation, walked.trace);
  }
  ExplorationLimits limits;
  limits.states = static_cast<size_t>(settings.states) * 1000;
  limits.find_deadlocks = settings.deadlocks;
  const auto found = explore(model, limits);
  std::printf("%zu bytes; %s: %zu states, %zu steps, %zu ends, depth %u, %s\n",
              sizeof(RecoveryState), to_string(mutation), found.states, found.steps, found.ends,
              found.depth, found.complete ? "complete" : "not complete");
  if (!found.complete && found.violation.empty()) {
    std::printf("The search stopped at the bound states=%d (thousands); states=0 has none.\n",
                settings.states);
  }
  return report(found.violation, found.trace);
}

}  // namespace
}  // namespace gdr::model

int main(int argc, char** argv) {
  gdr::model::Settings settings;
  const auto options = gdr::model::options_of(&settings);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0) return gdr::model::print_help(options), 0;
    if (!gdr::model::read_word(argv[i], options)) {
      std::fprintf(stderr, "%s: not name=number, or out of range; --help lists names and ranges\n",
                   argv[i]);
      return 2;
    }
  }
  return gdr::model::search(settings);
}
