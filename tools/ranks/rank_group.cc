#include "tools/ranks/rank_group.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "tools/common/output.h"
#include "tools/ranks/control_server.h"

namespace gdr::tools {
namespace {
constexpr int kServeMs = 20;
constexpr double kGraceSeconds = 2;   // for the reports of the other ranks after a failure
constexpr double kMarginSeconds = 5;  // so that a rank detects its own hang first: it knows more

struct Child {
  pid_t pid = -1;
  bool running = true;
  uint64_t heartbeat = 0;
  RankOutcome outcome;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// No exception leaves a rank for what its parent does: above all, its standard output may be full.
int run_guarded(Rank& rank, const RankMain& main) {
  try {
    return main(rank);
  } catch (const std::exception& error) {
    rank.board().set_report(describe_failure(error));
    return kExitCouldNotRun;
  }
}

// Runs a rank in a forked process. The kernel kills it when its parent dies; the comparison with
// getppid() covers a parent that died before prctl().
[[noreturn]] void run_child(const RankSpec& rank_spec, RankBoard* board, const RankMain& main,
                            pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitCouldNotRun);
  int code = kExitCouldNotRun;
  {
    auto rank = Rank::join(rank_spec, board);
    if (rank) {
      code = run_guarded(*rank, main);
    } else {
      board->set_report(rank.error().text);
    }
  }
  std::fflush(nullptr);
  std::exit(code);
}

// Shows in one line of a terminal what takes long, until more is printed.
class ProgressLine {
 public:
  explicit ProgressLine(bool is_wanted) : is_wanted_(is_wanted && is_stderr_terminal()) {}
  ~ProgressLine() {
    if (shown_seconds_ > 0) std::fputs(kClearLine, stderr);
  }

  void update(const RankBoard& board) {
    if (!is_wanted_) return;
    if (const uint32_t lines = board.lines.load(); lines != lines_) {
      lines_ = lines;
      since_ = Clock::now();
    }
    const int seconds = static_cast<int>(seconds_since(since_));
    if (seconds < kQuietSeconds || seconds == shown_seconds_) return;
    shown_seconds_ = seconds;
    std::fputs(fmt::format("{}{} ({} s)", kClearLine, board.state, seconds).c_str(), stderr);
  }

 private:
  static constexpr int kQuietSeconds = 2;
  bool is_wanted_;
  uint32_t lines_ = 0;
  Clock::time_point since_ = Clock::now();
  int shown_seconds_ = 0;
};

// Starts the ranks, serves the control connections, and watches for exits, progress and time
// limits.
class Supervisor {
 public:
  Supervisor(const GroupSpec& spec, RankBoards boards, std::optional<ControlServer> server)
      : spec_(spec),
        boards_(std::move(boards)),
        server_(std::move(server)),
        progress_(spec.shows_progress) {}

  Status start(const RankMain& main);
  std::vector<RankOutcome> run();

 private:
  void reap();
  void note_progress();
  void check_deadlines();
  void kill_running(RankOutcome::End why);
  bool any_running() const;

  const GroupSpec& spec_;
  RankBoards boards_;
  std::optional<ControlServer> server_;
  ProgressLine progress_;
  std::vector<Child> children_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point progressed_ = started_;
  std::optional<Clock::time_point> failed_;
};

Status Supervisor::start(const RankMain& main) {
  print_now("");  // otherwise each rank prints it as well
  pid_t parent = getpid();
  RankSpec rank_spec{0, spec_.nranks, spec_.run, spec_.root, spec_.patience_seconds};
  for (size_t i = 0; i < spec_.local.size(); ++i) {
    rank_spec.rank = spec_.local[i];
    Child child;
    child.outcome.rank = rank_spec.rank;
    child.pid = fork();
    if (child.pid == 0) {
      server_.reset();
      if (spec_.listener) spec_.listener->reset();
      run_child(rank_spec, &boards_[i], main, parent);
    }
    if (child.pid < 0) {
      Status failed = fail_errno(Code::kSystem, "fork", errno);
      kill_running(RankOutcome::End::kEnded);
      return failed;
    }
    children_.push_back(std::move(child));
  }
  return {};
}

std::vector<RankOutcome> Supervisor::run() {
  while (any_running()) {
    if (server_) {
      server_->serve(kServeMs);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(kServeMs));
    }
    reap();
    note_progress();
    progress_.update(boards_[0]);
    check_deadlines();
  }
  std::vector<RankOutcome> outcomes;
  for (size_t i = 0; i < children_.size(); ++i) {
    RankOutcome outcome = std::move(children_[i].outcome);
    outcome.report = boards_[i].report;
    outcome.reported_at = boards_[i].reported_at.load();
    outcome.state = boards_[i].state;
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

void Supervisor::reap() {
  for (Child& child : children_) {
    int status = 0;
    if (!child.running || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    child.running = false;
    progressed_ = Clock::now();
    if (child.outcome.end == RankOutcome::End::kExited && WIFSIGNALED(status)) {
      child.outcome.end = RankOutcome::End::kKilled;
      child.outcome.signal = WTERMSIG(status);
    } else if (WIFEXITED(status)) {
      child.outcome.end = RankOutcome::End::kExited;
      child.outcome.exit_code = WEXITSTATUS(status);
    }
    if (!child.outcome.well() && !failed_) failed_ = Clock::now();
  }
}

// Any change of any rank's heartbeat counts as progress of the whole run, because a rank may wait
// for another one for long.
void Supervisor::note_progress() {
  for (size_t i = 0; i < children_.size(); ++i) {
    uint64_t beat = boards_[i].heartbeat.load(std::memory_order_relaxed);
    if (beat != children_[i].heartbeat) progressed_ = Clock::now();
    children_[i].heartbeat = beat;
  }
}

void Supervisor::check_deadlines() {
  if (failed_ && !spec_.outlive_deaths && seconds_since(*failed_) > kGraceSeconds) {
    kill_running(RankOutcome::End::kEnded);
  }
  bool hung = seconds_since(progressed_) > spec_.patience_seconds + kMarginSeconds;
  bool late = spec_.total_seconds > 0 && seconds_since(started_) > spec_.total_seconds;
  if (hung || late) kill_running(RankOutcome::End::kHung);
}

void Supervisor::kill_running(RankOutcome::End why) {
  for (Child& child : children_) {
    if (!child.running || child.outcome.end != RankOutcome::End::kExited) continue;
    child.outcome.end = why;
    kill(child.pid, SIGKILL);
  }
}

bool Supervisor::any_running() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) { return child.running; });
}
}  // namespace

GroupSpec local_group(int nranks) {
  GroupSpec spec;
  spec.nranks = nranks;
  spec.local.resize(static_cast<size_t>(nranks));
  std::iota(spec.local.begin(), spec.local.end(), 0);
  return spec;
}

Result<GroupSpec> group_of(int nranks, const std::string& root, int rank) {
  GroupSpec spec = local_group(nranks);
  if (root.empty()) return spec;
  auto served_at = parse_host_port(root);
  if (!served_at) return forward_error(served_at);
  if (rank < 0 || rank >= nranks) {
    return fail(Code::kInvalidArgument,
                fmt::format("--root needs --rank, from 0 to {}", nranks - 1));
  }
  if (served_at->port == 0 && rank != 0) {
    return fail(Code::kInvalidArgument,
                "--root: port 0 is a free one, which rank 0 prints; give the other ranks that one");
  }
  spec.root = *served_at;
  spec.local = {rank};
  return spec;
}

Status listen_at_root(GroupSpec& spec) {
  if (spec.listener || std::ranges::count(spec.local, 0) == 0) return {};
  const bool prints = spec.root.port == 0 && std::ssize(spec.local) < spec.nranks;
  auto listener = listen_on(spec.root);
  if (!listener) return forward_error(listener);
  spec.listener = std::make_shared<UniqueFd>(std::move(*listener));
  if (prints) {
    fmt::print(stderr, "nccl-gdr: rank 0 listens on {}:{}\n", spec.root.host, spec.root.port);
  }
  return {};
}

Result<std::vector<RankOutcome>> run_group(GroupSpec spec, const RankMain& main) {
  auto boards = make_rank_boards(static_cast<int>(spec.local.size()));
  if (!boards) return forward_error(boards);
  if (Status listening = listen_at_root(spec); !listening) return forward_error(listening);
  std::optional<ControlServer> server;
  if (spec.listener) server.emplace(spec.listener->get(), spec.nranks, spec.run);
  Supervisor supervisor(spec, std::move(*boards), std::move(server));
  if (Status started = supervisor.start(main); !started) return forward_error(started);
  return supervisor.run();
}

std::vector<RankOutcome> causes(const std::vector<RankOutcome>& outcomes) {
  std::vector<RankOutcome> bad;
  std::copy_if(outcomes.begin(), outcomes.end(), std::back_inserter(bad),
               [](const RankOutcome& outcome) { return !outcome.well(); });
  std::stable_sort(bad.begin(), bad.end(), [](const RankOutcome& a, const RankOutcome& b) {
    return std::pair(a.end, a.reported_at) < std::pair(b.end, b.reported_at);
  });
  return bad;
}

std::string describe(const RankOutcome& outcome) {
  std::string who = fmt::format("rank {}", outcome.rank);
  std::string doing = outcome.state.empty() ? "" : " while " + outcome.state;
  switch (outcome.end) {
    case RankOutcome::End::kKilled:
      return fmt::format("{} was killed by signal {} ({}){}", who, outcome.signal,
                         strsignal(outcome.signal), doing);
    case RankOutcome::End::kHung:
      return fmt::format("{} hung{}", who, doing);
    case RankOutcome::End::kEnded:
      return fmt::format("{} was ended{}", who, doing);
    case RankOutcome::End::kExited:
      break;
  }
  if (!outcome.report.empty()) return fmt::format("{}: {}", who, outcome.report);
  return fmt::format("{} ended with exit code {}{}", who, outcome.exit_code, doing);
}

}  // namespace gdr::tools
