#include "tools/topo/standard_input.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace gdr::tools::topo {
namespace {

constexpr size_t kMaxInputBytes = 64 << 20;

tl::unexpected<Error> input_failed() {
  return fail_errno(Code::kInvalidArgument, "standard input cannot be read", errno);
}

Result<std::string> read_input() {
  std::string text;
  std::array<char, 1 << 16> block{};
  for (;;) {
    const ssize_t size = read(STDIN_FILENO, block.data(), block.size());
    if (size == 0) return text;
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return input_failed();
    text.append(block.data(), static_cast<size_t>(size));
    if (text.size() > kMaxInputBytes) {
      return fail(Code::kInvalidArgument, "standard input has more than 64 MiB");
    }
  }
}

Status write_copy(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t size = write(file, text.data() + done, text.size() - done);
    if (size < 0 && errno != EINTR) return input_failed();
    if (size > 0) done += static_cast<size_t>(size);
  }
  return {};
}

}  // namespace

Status make_standard_input_rereadable() {
  struct stat info {};
  if (fstat(STDIN_FILENO, &info) != 0) return input_failed();
  if (S_ISREG(info.st_mode)) return {};
  Result<std::string> text = read_input();
  if (!text) return forward_error(text);
  const int copy = memfd_create("stdin", MFD_CLOEXEC);
  if (copy < 0) return input_failed();
  Status status = write_copy(copy, *text);
  if (status && dup2(copy, STDIN_FILENO) < 0) status = input_failed();
  (void)close(copy);
  return status;
}

}  // namespace gdr::tools::topo
