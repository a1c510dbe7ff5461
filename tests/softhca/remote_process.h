// A second process with one endpoint and one buffer, for tests.
#pragma once

#include <sys/types.h>

#include <string>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {

class RemoteProcess {
 public:
  // Starts remote_main with a buffer on `gpu` (-1: host).
  RemoteProcess(int gpu, size_t bytes);
  ~RemoteProcess();
  RemoteProcess(const RemoteProcess&) = delete;
  RemoteProcess& operator=(const RemoteProcess&) = delete;

  // Sends a command line; returns the answer.
  std::string ask(const std::string& command);
  int ask_number(const std::string& command) { return std::stoi(ask(command)); }
  // Reads the next answer of a command that has several.
  std::string answer();
  // Connects its endpoint with ours, both ways.
  void connect(Endpoint& own);

  const Address& address() const { return address_; }
  uint64_t memory() const { return memory_; }
  uint32_t rkey() const { return rkey_; }

  // SIGKILL; the process stays a zombie until `reap`.
  void kill();
  void reap();
  // Closes its stdin, so that it ends by itself. Returns its exit status.
  int finish();

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  Address address_;
  uint64_t memory_ = 0;
  uint32_t rkey_ = 0;
};

}  // namespace softhca_test
