// nccl-gdr: one program with a subcommand for each task.
namespace gdr::tools {
int run_command_line(int argc,
                     char** argv);  // tools/commands.h, without CLI11, which compiles slowly
}

int main(int argc, char** argv) { return gdr::tools::run_command_line(argc, argv); }
