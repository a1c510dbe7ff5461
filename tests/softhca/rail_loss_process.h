// One of the two processes of a run, as the program that started it sees it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "tests/softhca/rail_loss_run.h"

namespace gdr::rail_loss {

// Speaks with an end as run_end() describes. Once that has ended, or does not answer, it stays so.
class Process {
 public:
  Process(const Scenario& scenario, int end, const RunArguments& arguments);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void write_line(const std::string& line);
  // The rest of a line that begins with the word; nothing if none comes, or another one.
  std::optional<std::string> answer(const std::string& word);
  // How it ended, for a person; "" if it has not ended.
  const std::string& end() const { return end_; }

 private:
  std::optional<std::string> read_line();

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string unread_;
  std::string end_;
};

// The file to which an end appends faults.
std::string faults_file(const RunArguments& arguments, uint64_t seed, int end);

}  // namespace gdr::rail_loss
