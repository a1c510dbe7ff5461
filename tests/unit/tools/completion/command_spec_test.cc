#include "tools/completion/command_spec.h"

#include <gmock/gmock.h>

namespace gdr::tools::completion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

CommandSpec program() {
  CommandSpec root{"nccl-gdr", "Measures", {{{"-h", "--help"}, false, "Print help"}}, {}, false};
  CommandSpec run{
      "nccl-gdr run", "Runs it's program", {{{"--file"}, true, "A file: it's read"}}, {}, true};
  CommandSpec deep{"nccl-gdr show all", "Shows all", {}, {}, false};
  CommandSpec show{"nccl-gdr show", "Shows", {}, {deep}, false};
  root.commands = {run, show};
  return root;
}

TEST(CommandSpec, AllCommands_ComeBeforeThoseBelowThem) {
  const CommandSpec root = program();
  std::vector<std::string> paths;
  for (const CommandSpec* one : all_commands(root)) paths.push_back(one->path);
  EXPECT_THAT(paths, ElementsAre("nccl-gdr", "nccl-gdr run", "nccl-gdr show", "nccl-gdr show all"));
  EXPECT_EQ(all_commands(root).back()->name(), "all");
}

TEST(CommandSpec, OptionNames_AreAllOrThoseWithAValue) {
  const CommandSpec root = program();
  EXPECT_THAT(option_names(root, false), ElementsAre("-h", "--help"));
  EXPECT_THAT(option_names(root, true), ElementsAre());
  EXPECT_THAT(option_names(root.commands[0], true), ElementsAre("--file"));
}

TEST(CommandSpec, ShellWord_KeepsQuotes) { EXPECT_EQ(shell_word("it's $x"), R"('it'\''s $x')"); }

TEST(BashScript, Words_AreOptionsAndSubcommands) {
  const std::string script = bash_script(program());
  EXPECT_THAT(script, HasSubstr(R"("nccl-gdr:all") echo "-h --help run show" ;;)"));
  EXPECT_THAT(script, HasSubstr(R"("nccl-gdr run:valued") echo "--file" ;;)"));
  EXPECT_THAT(script, HasSubstr(R"(|| [[ $1 == "nccl-gdr run" ]])"));
  EXPECT_THAT(script, Not(HasSubstr(R"(|| [[ $1 == "nccl-gdr show" ]])")));
}

TEST(ZshScript, Descriptions_AreQuoted) {
  EXPECT_THAT(zsh_script(program()), HasSubstr(R"('--file:A file: it'\''s read')"));
}

TEST(FishScript, Descriptions_AreQuotedAsFishReadsThem) {
  EXPECT_THAT(fish_script(program()), HasSubstr(R"(-l file -r -d 'A file: it\'s read')"));
}

}  // namespace
}  // namespace gdr::tools::completion
