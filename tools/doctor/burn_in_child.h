// A program that a measurement runs. It does not outlive the doctor: when that ends in any way, as
// by Ctrl-C or SIGKILL, the kernel kills the program.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::tools::doctor {

using BurnInClock = std::chrono::steady_clock;

// How long an end of a measurement may go on after the other one has ended.
inline constexpr auto kBurnInGrace = std::chrono::seconds(10);

struct ChildSpec {
  std::string program;                        // its path
  std::vector<std::string> arguments;         // without the program's name
  std::vector<std::string> environment = {};  // "NAME=value", replacing those of this process
  // The CPUs to run on, of those that this process may use; all of these where fewer than two are
  // left, since both ends of a measurement poll.
  std::vector<int> cpus = {};
};

class ChildProcess {
 public:
  // Starts it. What it prints is kept in memory, and its standard input is empty. SIGCHLD is no
  // longer ignored afterwards. Fails where it cannot be run.
  static Result<ChildProcess> start(const ChildSpec& spec);

  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;
  ~ChildProcess();  // ends it

  // Also kills a program that prints without end.
  bool has_ended();
  // Returns whether it ended before the deadline.
  bool wait_until(BurnInClock::time_point deadline);
  // Ends it: by SIGTERM, and a second later by SIGKILL.
  void end();

  // Once it has ended; -1: by a signal, or the status is unknown.
  int exit_status() const;
  std::string how_it_ended() const;  // "ended with status 1", "was ended by signal 9 (Killed)"
  // The first MiB of what it printed so far.
  std::string output() const;
  std::string errors() const;  // of standard error

 private:
  struct Running;
  explicit ChildProcess(std::unique_ptr<Running> running);
  std::unique_ptr<Running> running_;
};

// Waits until the programs have ended, but no longer than `limit`, and than `grace` after the first
// end of the two has ended. Returns whether it was waited for the grace.
bool wait_for_ends(const std::function<bool()>& have_ended,
                   const std::function<bool()>& first_has_ended, BurnInClock::duration limit,
                   BurnInClock::duration grace);

// Returns the path of an executable file in the folders of `path`, as PATH has them; "" if there is
// none.
std::string program_in_path(const std::string& name, const std::string& path);

}  // namespace gdr::tools::doctor
