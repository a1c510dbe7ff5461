#include "tools/ranks/rank.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "tools/ranks/control_frame.h"

namespace gdr::tools {
namespace {
Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

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

Result<Rank> Rank::join(const RankSpec& spec, RankBoard* board) {
  Rank rank;
  rank.spec_ = spec;
  rank.board_ = board;
  board->set_state(fmt::format("connecting to the root {}:{}", spec.root.host, spec.root.port));
  auto fd = connect_until(spec.root, after(spec.patience_seconds));
  if (!fd) return forward_error(fd);
  rank.fd_ = std::move(*fd);
  Hello hello;
  hello.rank = static_cast<uint32_t>(spec.rank);
  hello.nranks = static_cast<uint32_t>(spec.nranks);
  hello.run = spec.run;
  std::string frame = make_frame({reinterpret_cast<const char*>(&hello), sizeof(hello)});
  if (Status sent = write_all(rank.fd_.get(), frame); !sent) return forward_error(sent);
  return rank;
}

Result<std::vector<std::string>> Rank::allgather(std::string_view what, std::string_view mine) {
  board_->set_state(fmt::format("waiting for the other ranks ({})", what));
  board_->beat();
  if (Status sent = write_all(fd_.get(), make_frame(mine)); !sent) return forward_error(sent);
  Clock::time_point deadline = after(spec_.patience_seconds);
  uint32_t length = 0;
  Status got = read_all(fd_.get(), reinterpret_cast<char*>(&length), sizeof(length), deadline);
  if (got && length > kMaxFrameBytes) return fail(Code::kRemote, "control connection: bad frame");
  std::string payload(got ? length : 0, '\0');
  if (got) got = read_all(fd_.get(), payload.data(), payload.size(), deadline);
  if (!got) return fail(Code::kRemote, fmt::format("{} (at: {})", got.error().text, what));
  if (!payload.empty() && payload[0] == static_cast<char>(Answer::kAbandoned)) {
    return fail(Code::kRemote, fmt::format("{} (at: {})", payload.substr(1), what));
  }
  std::vector<std::string> parts;
  if (!parse_gathered(payload, static_cast<size_t>(spec_.nranks), &parts)) {
    return fail(Code::kRemote, "control connection: bad answer");
  }
  board_->beat();
  return parts;
}

Status Rank::barrier(std::string_view what) {
  auto all = allgather(what, {});
  if (!all) return forward_error(all);
  return {};
}

// How many bytes there are to read, at most one; -1: none yet; 0: the connection has ended.
int Rank::peek() const {
  char byte;
  const auto got = static_cast<int>(recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT));
  return got < 0 && errno != EAGAIN && errno != EINTR ? 0 : got;
}

bool Rank::abandoned() const { return peek() == 0; }
bool Rank::has_lost_a_rank() const { return peek() >= 0; }

}  // namespace gdr::tools
