// nccl-gdr-diagnose: all subcommands, or those that a build has (GDR_ADD_COMMANDS). nccl-gdr runs
// it.
namespace CLI {
class App;
}
namespace gdr::tools {
// Declared here, since tools/commands.h includes CLI11, which compiles slowly.
void GDR_ADD_COMMANDS(CLI::App& app);
int run_command_line(int argc, char** argv, void (*add)(CLI::App& app));
}  // namespace gdr::tools

int main(int argc, char** argv) {
  return gdr::tools::run_command_line(argc, argv, &gdr::tools::GDR_ADD_COMMANDS);
}
