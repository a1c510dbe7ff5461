#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "tools/commands.h"
#include "tools/common/output.h"

namespace gdr::tools {
namespace {

// Returns what prints the help for what was called: "nccl-gdr perf --help lists the subcommands".
std::string help_of(const CLI::App& app) {
  const CLI::App* called = &app;
  std::string words = "nccl-gdr ";
  while (!called->get_subcommands().empty()) {
    called = called->get_subcommands()[0];
    words += called->get_name() + " ";
  }
  const bool lacks_one = called->get_require_subcommand_min() > 0;
  return words + "--help lists the " + (lacks_one ? "subcommands" : "options");
}

// CLI11 lists unknown arguments from the last to the first, and reports that a subcommand is
// missing where an unknown option is in its place.
std::string text_of(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // "Could not convert: --rails = x". Options of other types have checks of their own.
    const std::string text = CLI::detail::find_and_replace(error.what(), " = ", ": ");
    return text.substr(text.find("--")) + " is not a number";
  }
  const std::vector<std::string> unknown = app.remaining(true);
  const bool is_about_them = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                             dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (unknown.empty() || !is_about_them) return error.what();
  return fmt::format("not expected: {}", fmt::join(unknown, " "));
}

constexpr size_t kHelpColumns = 80;  // of a terminal
constexpr size_t kTextColumn = 24;   // where the descriptions begin

// Returns the text behind `head`, broken at blanks; its lines after the first begin with `indent`
// blanks.
std::string wrapped(const std::string& head, size_t indent, const std::string& text) {
  std::string lines, line = head;
  const std::string rest(indent, ' ');
  for (const std::string& word : CLI::detail::split(text, ' ')) {
    const bool is_empty = line.find_first_not_of(' ') == std::string::npos || line == head;
    if (!is_empty && line.size() + 1 + word.size() > kHelpColumns) {
      lines += line + "\n";
      line = rest + word;
    } else {
      line += (is_empty ? "" : " ") + word;
    }
  }
  return lines + line + "\n";
}

// Returns a line for each name, and its description beside it, or below where the name is long.
std::string described(const std::string& name, const std::string& text) {
  const std::string head = fmt::format("{:<{}}", "  " + name, kTextColumn);
  if (text.empty()) return "  " + name + "\n";
  if (head.size() == kTextColumn && head.ends_with(' ')) return wrapped(head, kTextColumn, text);
  return head + "\n" + wrapped(std::string(kTextColumn, ' '), kTextColumn, text);
}

// Returns the name of an option's value: "1..32" of CLI11's "UINT:INT in [1 - 32]", SIZE of
// "UINT:SIZE", and the values themselves where they are listed.
std::string value_name(const std::string& type) {
  if (const size_t values = type.find('{'); values != std::string::npos) return type.substr(values);
  if (type.find(":SIZE") != std::string::npos) return "SIZE";
  if (const size_t range = type.find('['); range != std::string::npos) {
    const std::string ends = type.substr(range + 1, type.size() - range - 2);
    return CLI::detail::find_and_replace(ends, " - ", "..");
  }
  const std::string name = type.substr(0, type.find(':'));
  return name == "INT" || name == "UINT" || name == "FLOAT" ? "N" : name == "TEXT" ? "VALUE" : name;
}

// Prints help for a terminal of 80 columns, a group of options as the others, and not which options
// exclude each other.
class HelpFormatter : public CLI::Formatter {
  std::string make_description(const CLI::App* app) const override {
    return app->get_description().empty() ? "" : wrapped("", 0, app->get_description());
  }
  std::string make_subcommand(const CLI::App* app) const override {
    return described(app->get_name(), app->get_description());
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    // Without what a negated flag means to CLI11, "--no-check{false}".
    const std::string name = make_option_name(option, is_positional);
    return described(CLI::detail::find_and_replace(name, "{false}", "") + make_option_opts(option),
                     make_option_desc(option));
  }
  std::string make_expanded(const CLI::App* group) const override {
    std::string text = "\n" + group->get_group() + ":\n";
    for (const CLI::Option* one : group->get_options()) {
      if (one != group->get_help_ptr()) text += make_option(one, false);
    }
    return text;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_items_expected_max() == 0) return "";
    std::string text = " " + value_name(option->get_type_name());
    if (option->get_expected_max() > 1) text += option->get_delimiter() == ',' ? ",..." : " ...";
    if (const std::string value = option->get_default_str(); !value.empty()) text += "=" + value;
    return text;
  }
};

// An empty word, as of a variable of the shell that is unset, is no value of any option.
void refuse_empty_values(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    option->check([](const std::string& text) { return text.empty() ? "the value is empty" : ""; });
  }
  for (CLI::App* command : app->get_subcommands({})) refuse_empty_values(command);
}

int parse_and_run(int argc, char** argv, void (*add)(CLI::App& app)) {
  CLI::App app{"", "nccl-gdr"};
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this help and exit");
  add(app);
  refuse_empty_values(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      const bool is_help = dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr;
      print_now(is_help ? app.help() : std::string(error.what()) + "\n");
      return kExitOk;
    }
    print_error(text_of(app, error) + ". Fix: " + help_of(app));
    return kExitUsage;
  }
  return kExitOk;
}

}  // namespace

void print_error(const std::string& text) {
  std::fputs(("nccl-gdr: " + text + "\n").c_str(), stderr);
}

void stop(int code, const std::string& text) {
  print_error(text);
  throw CLI::RuntimeError(code);
}

void stop(const Error& error) {
  const bool is_wrong = error.code == Code::kInvalidUsage || error.code == Code::kInvalidArgument;
  stop(is_wrong ? kExitUsage : kExitCouldNotRun, error.text);
}

void add_footer(CLI::App* command, const std::string& example, const std::string& statuses) {
  command->footer("Example:\n    " + example + "\n\n" + wrapped("Exit status: ", 4, statuses));
}

std::string usual_statuses(const std::string& failed) {
  return "0: as wanted; " + (failed.empty() ? "" : "1: " + failed + "; ") +
         "2: an option or a file cannot be used; 3: nothing could be run or looked at, or stdout "
         "cannot be written";
}

CLI::Validator positive_number() {
  auto check = [](const std::string& text) -> std::string {
    double number = 0;
    const bool is_number = CLI::detail::lexical_cast(text, number) && std::isfinite(number);
    return is_number && number > 0 ? "" : fmt::format("\"{}\" is not a number above 0", text);
  };
  return CLI::Validator(check, "POSITIVE");
}

CLI::Validator whole_number() {
  auto check = [](const std::string& text) -> std::string {
    uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    const bool is_whole = error == std::errc() && rest == end;
    return is_whole ? "" : fmt::format("\"{}\" is not a whole number below 2^64", text);
  };
  return CLI::Validator(check, "WHOLE");
}

int run_command_line(int argc, char** argv, void (*add)(CLI::App& app)) {
  hold_standard_streams();
  try {
    const int code = parse_and_run(argc, argv, add);
    print_now("");
    return code;
  } catch (const std::exception& error) {
    print_error(describe_failure(error));
    return kExitCouldNotRun;
  }
}

}  // namespace gdr::tools
