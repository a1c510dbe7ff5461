// nccl-gdr: one program with a subcommand for each task.
namespace gdr::tools {
// Declared here, since tools/commands.h includes CLI11, which compiles slowly.
int run_command_line(int argc, char** argv);
}  // namespace gdr::tools

int main(int argc, char** argv) { return gdr::tools::run_command_line(argc, argv); }
