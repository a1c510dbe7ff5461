// docs/man/nccl-gdr-doctor.1.md has what the command has.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <regex>

#include "tests/fakes/temp_folder.h"
#include "tools/commands.h"
#include "tools/common/exit_codes.h"

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;

std::string text_in(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// The long names in the help of the command, as "--all".
std::set<std::string> options_of_help() {
  CLI::App app;
  add_doctor_command(app);
  const std::string help = app.get_subcommand("doctor")->help();
  const std::regex option("--[a-z][a-z-]+");
  std::set<std::string> names;
  for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at) {
    names.insert(at->str());
  }
  return names;
}

// The entry of an option in the section of options, where each '-' has a backslash, since pandoc
// would make a dash of two.
std::string entry_of(const std::string& option) { return "**\\-\\-" + option.substr(2) + "**"; }

TEST(DoctorManPage, Options_AreThoseOfTheCommand) {
  const std::string page = text_in(GDR_DOCTOR_MAN_PAGE);
  const std::set<std::string> options = options_of_help();
  EXPECT_GE(options.size(), 9u);
  const std::string section =
      page.substr(page.find("# OPTIONS"), page.find("# EXIT") - page.find("# OPTIONS"));
  for (const std::string& one : options) {
    EXPECT_THAT(page, HasSubstr(entry_of(one)));
    EXPECT_TRUE(section.find("\n" + entry_of(one)) != std::string::npos ||
                section.find(", " + entry_of(one)) != std::string::npos)
        << one << " has no entry";
  }
  const std::regex entry("\n\\*\\*\\\\-\\\\-([a-z-]+)\\*\\*");
  for (std::sregex_iterator at(section.begin(), section.end(), entry), end; at != end; ++at) {
    EXPECT_TRUE(options.contains("--" + at->str(1))) << at->str(1);
  }
}

TEST(DoctorManPage, ExitStatuses_AreAllThere) {
  const std::string page = text_in(GDR_DOCTOR_MAN_PAGE);
  const std::string section = page.substr(page.find("# EXIT STATUS"));
  for (const int status : {kExitOk, kExitFailed, kExitUsage, kExitCouldNotRun}) {
    EXPECT_THAT(section, HasSubstr("\n**" + std::to_string(status) + "**\n:   "));
  }
}

TEST(DoctorManPage, Pandoc_MakesAManPage) {
  if (std::system("command -v pandoc > /dev/null") != 0) GTEST_SKIP() << "pandoc is not installed";
  const TempFolder folder;
  const std::string page = (folder.path() / "page.1").string();
  const std::string command =
      std::string("pandoc -s -t man '") + GDR_DOCTOR_MAN_PAGE + "' -o '" + page + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::string text = text_in(page);
  std::erase(text, '\\');  // releases of pandoc differ in what they escape
  EXPECT_THAT(text, HasSubstr(".TH \"NCCL-GDR-DOCTOR\" \"1\""));
  EXPECT_THAT(text, HasSubstr(".SH EXIT STATUS"));
  EXPECT_THAT(text, HasSubstr("--fix-script"));
}

}  // namespace
}  // namespace gdr::tools
