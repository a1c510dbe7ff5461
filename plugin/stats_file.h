// The file with the counters of one process, in a folder that the processes of a node share.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gdr::plugin {

// Each process takes the lowest number whose lock no other one in the folder holds, and writes
// nccl_gdr_<number>.prom. A lock (flock(2)) on .nccl_gdr_<number>.lock holds the number. The kernel
// releases it when the process ends, however it ends, so that pids, which containers have in
// common, do not matter; the next process takes the number and replaces the file. A process that
// takes a number also removes the files of all others that have ended, and holds their locks for a
// moment, which another one that starts takes for living. Lock files stay: to remove one, also with
// the folder, while jobs run, would give a number to two.
//
// Not thread-safe. All calls may block for as long as the file system does.
class StatsFile {
 public:
  // The folder is not created: a mistyped name would go unnoticed.
  explicit StatsFile(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Writes the file as a whole, so that a reader sees the old text or the new one: to a temporary
  // file of a name that collectors ignore, which is then renamed. text_of(number) is its text.
  // Errors: kSystem with the call, the path and the fix.
  Status write(const std::function<std::string(int number)>& text_of);

  // As last written; "" before.
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path file(int number) const;
  std::filesystem::path lock_file(int number) const;
  std::filesystem::path temporary_file(int number) const;
  // Makes this process hold a number.
  Status claim();
  // Whether the number is free and this process has it now.
  Result<bool> try_number(int number);
  Result<UniqueFd> open_lock(int number) const;
  bool is_of_another_user(const std::filesystem::path& path) const;
  void remove_files_of_ended() const;
  Status replace(const std::string& text);

  const std::filesystem::path folder_;
  std::filesystem::path path_;
  UniqueFd lock_;
  int number_ = -1;
};

}  // namespace gdr::plugin
