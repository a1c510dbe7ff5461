// nccl-gdr-diagnose: all subcommands. nccl-gdr runs it.
namespace CLI {
class App;
}
namespace gdr::tools {
// Declared here, since tools/commands.h includes CLI11, which compiles slowly.
void add_commands(CLI::App& app);
int run_command_line(int argc, char** argv, void (*add)(CLI::App& app));
}  // namespace gdr::tools

int main(int argc, char** argv) {
  return gdr::tools::run_command_line(argc, argv, &gdr::tools::add_commands);
}
