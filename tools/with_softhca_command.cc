#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/commands.h"
#include "tools/common/installed_folders.h"
#include "tools/common/output.h"

namespace gdr::tools {
namespace {

// As env(1) has them, beside kExitNoSofthca. Any other exit status is the program's own.
constexpr int kExitCannotRun = 126;
constexpr int kExitNotFound = 127;

struct WithSofthcaCommand {
  std::string config;
  bool print_folder = false;
};

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the value of SOFTHCA_CONFIG for --config. A file gets an absolute path, since the program
// may change its folder.
std::string config_value(const std::string& config) {
  if (config.starts_with('{')) return config;
  const int error = access(config.c_str(), R_OK) != 0       ? errno
                    : std::filesystem::is_directory(config) ? EISDIR
                                                            : 0;
  if (error != 0) {
    stop(kExitUsage,
         fmt::format("--config {}: {}. Fix: name a readable JSON file, or give the JSON object "
                     "itself, which starts with {{",
                     config, std::strerror(error)));
  }
  return std::filesystem::absolute(config).string();
}

// NCCL and the plugin load what these name in place of the first libibverbs.so.1 in the path.
void warn_of_other_library() {
  const std::string library = value_of("NCCL_IBVERBS_LIB");
  if (library.empty()) return;
  print_error("NCCL_IBVERBS_LIB is " + library +
              ", which the plugin loads in place of the software HCA. Fix: unset NCCL_IBVERBS_LIB");
}

bool is_subcommand(const CLI::App& app, const std::string& word) {
  return !app.get_subcommands([&](const CLI::App* one) { return one->get_name() == word; }).empty();
}

[[noreturn]] void run_program(const CLI::App& app, std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  (void)std::fflush(nullptr);
  (void)execvp(argv[0], argv.data());
  const int error = errno;
  std::string text = fmt::format("cannot run {}: {}", words[0], std::strerror(error));
  if (is_subcommand(*app.get_parent(), words[0])) {
    text += fmt::format(". Fix: for the subcommand, nccl-gdr with-softhca nccl-gdr {}", words[0]);
  }
  stop(error == ENOENT ? kExitNotFound : kExitCannotRun, text);
}

void run(const WithSofthcaCommand& command, const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  if (command.print_folder != words.empty()) {
    stop(kExitUsage,
         command.print_folder
             ? "--folder runs no program: leave out " + words[0]
             : "with-softhca needs a program to run, such as: nccl-gdr with-softhca ibv_devinfo");
  }
  if (!words.empty() && words[0].starts_with('-')) {
    stop(kExitUsage, fmt::format("with-softhca has no option {}. Fix: nccl-gdr with-softhca --help "
                                 "lists those before the program",
                                 words[0]));
  }
  const std::string config = command.config.empty() ? "" : config_value(command.config);
  const Result<std::string> folder = find_softhca(program_folder());
  if (!folder) stop(kExitNoSofthca, folder.error().text);
  if (command.print_folder) {
    fmt::print("{}\n", *folder);
    return;
  }
  warn_of_other_library();
  const std::string before = value_of("LD_LIBRARY_PATH");
  // An empty entry would be the current folder.
  const std::string path = before.empty() ? *folder : *folder + ":" + before;
  (void)setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  if (!config.empty()) (void)setenv("SOFTHCA_CONFIG", config.c_str(), 1);
  run_program(app, words);
}

}  // namespace

void add_with_softhca_command(CLI::App& app) {
  auto command = std::make_shared<WithSofthcaCommand>();
  CLI::App* sub = app.add_subcommand(
      "with-softhca",
      "Run a program, which follows the options with its arguments, over the software HCA in place "
      "of RDMA hardware");
  sub->prefix_command();
  add_footer(sub, "nccl-gdr with-softhca ib_write_bw -a",
             "the program's; 2: an option cannot be used; 125: there is no software HCA; 126: the "
             "program cannot be run; 127: it was not found");
  sub->add_option("--config", command->config,
                  "Configuration of the software HCA: a JSON file, or a JSON object itself; in "
                  "place of SOFTHCA_CONFIG")
      ->type_name("FILE");
  sub->add_flag("--folder", command->print_folder,
                "Print the folder of the software HCA's libibverbs.so.1, and run nothing");
  sub->callback([command, sub] { run(*command, *sub); });
}

}  // namespace gdr::tools
