// docs/man has a page for each subcommand, with the options that it has.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tools/commands.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;

std::string page_of(const std::string& name) {
  std::ifstream stream(std::string(GDR_MAN_PAGES) + "/" + name + ".md");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// The names of the options of a command and of those below it, with dashes.
std::set<std::string> options_of(const CLI::App& app) {
  std::set<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_snames()) names.insert("-" + name);
    for (const std::string& name : option->get_lnames()) names.insert("--" + name);
  }
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.merge(options_of(*one));
  }
  return names;
}

// The bold names of options at the beginnings of entries: "**-b**, **\-\-begin** *SIZE*". A dash
// has a backslash, since pandoc would make one of two.
std::set<std::string> options_in(const std::string& page) {
  std::set<std::string> names;
  const std::regex line(R"(\n((?:(?:, )?\*\*\\?-[^*]+\*\*)+)[^\n]*\n:   )");
  const std::regex name(R"(\*\*([^*]+)\*\*)");
  for (std::sregex_iterator at(page.begin(), page.end(), line), end; at != end; ++at) {
    const std::string entry = at->str(1);
    for (std::sregex_iterator one(entry.begin(), entry.end(), name); one != end; ++one) {
      std::string text = one->str(1);
      std::erase(text, '\\');
      names.insert(text);
    }
  }
  return names;
}

class ManPages : public ::testing::Test {
 protected:
  ManPages() { add_commands(app_); }
  std::vector<const CLI::App*> commands() const {
    const CLI::App& app = app_;
    return app.get_subcommands([](const CLI::App*) { return true; });
  }
  CLI::App app_{"", "nccl-gdr"};
};

TEST_F(ManPages, Options_AreThoseOfTheSubcommand) {
  ASSERT_GE(commands().size(), 7u);
  for (const CLI::App* command : commands()) {
    const std::string name = "nccl-gdr-" + command->get_name() + ".1";
    EXPECT_EQ(options_in(page_of(name)), options_of(*command)) << name;
  }
}

TEST_F(ManPages, PageOfTheProgram_NamesEverySubcommand) {
  const std::string page = page_of("nccl-gdr.1");
  for (const CLI::App* command : commands()) {
    EXPECT_THAT(page, HasSubstr("\n**nccl-gdr-" + command->get_name() + "**(1)\n:   "));
  }
  EXPECT_THAT(options_in(page), ::testing::IsSupersetOf({"--version", "--help"}));
}

}  // namespace
}  // namespace gdr::tools
