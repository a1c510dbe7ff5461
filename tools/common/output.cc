#include "tools/common/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace gdr::tools {

// As the module stdopen of gnulib does for the programs of GNU.
void hold_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void print_now(const std::string& text) {
  errno = EIO;  // of a write that failed before
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::ferror(stdout) == 0 && std::fflush(stdout) == 0) {
    // Network file systems report only when a file is closed that it could not be written.
    if (close(dup(STDOUT_FILENO)) == 0) return;
  }
  throw OutputError(std::string("cannot write to stdout: ") + std::strerror(errno));
}

void write_output(const std::string& file, const std::string& text) {
  if (file == "-") return print_now(text);
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) throw OutputError("cannot write " + file + ": " + std::strerror(errno));
}

void expect_writable(const std::string& file) {
  if (file.empty() || file == "-") return;
  std::error_code absent;
  if (std::filesystem::is_fifo(file, absent)) return;  // its reader would see the end of it
  if (std::ofstream(file, std::ios::app)) return;
  throw OutputError("cannot write " + file + ": " + std::strerror(errno));
}

std::string describe_failure(const std::exception& error) {
  if (dynamic_cast<const OutputError*>(&error) != nullptr) return error.what();
  const auto* failed = dynamic_cast<const std::system_error*>(&error);
  if (failed != nullptr && std::ferror(stdout) != 0) {
    return "cannot write to stdout: " + failed->code().message();
  }
  return fmt::format("{}. Fix: report this as a defect of nccl-gdr", error.what());
}

bool is_stderr_terminal() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string(terminal) != "dumb";
}

}  // namespace gdr::tools
