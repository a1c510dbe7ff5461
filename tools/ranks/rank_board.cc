#include "tools/ranks/rank_board.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

namespace gdr::tools {
namespace {
void copy_text(std::string_view text, char* into, size_t capacity) {
  size_t bytes = std::min(text.size(), capacity - 1);
  std::memcpy(into, text.data(), bytes);
  into[bytes] = '\0';
}
}  // namespace

void RankBoard::set_state(std::string_view text) { copy_text(text, state, kStateBytes); }
void RankBoard::set_report(std::string_view text) {
  if (reported_at.load() != 0) return;
  copy_text(text, report, kReportBytes);
  reported_at.store(std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::steady_clock::now().time_since_epoch())
                        .count());
}

// The boards' members are trivial, so that unmapping without destructors is sufficient.
void UnmapBoards::operator()(RankBoard* boards) const { munmap(boards, bytes); }

Result<RankBoards> make_rank_boards(int count) {
  size_t bytes = sizeof(RankBoard) * static_cast<size_t>(count);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_errno(Code::kSystem, "mmap", errno);
  auto* boards = static_cast<RankBoard*>(memory);
  for (int i = 0; i < count; ++i) new (&boards[i]) RankBoard{};
  return RankBoards(boards, UnmapBoards{bytes});
}

}  // namespace gdr::tools
