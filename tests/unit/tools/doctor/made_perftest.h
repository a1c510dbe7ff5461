// Programs in place of perftest's, for tests without an HCA: they connect by TCP as those do, print
// what those print, or fail.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace gdr::tools::doctor {

class MadePerftest {
 public:
  explicit MadePerftest(const std::string& version = "6.06", const std::string& help = "") {
    write("version", version);
    write("help", help);
    write("mode", "well");
    for (const char* name : {"ib_write_bw", "ib_write_lat", "ib_send_lat"}) add(name);
  }

  // Both ends do this instead of measuring: "well", "hang", "silent" (status 0 without a result),
  // "error TEXT" (printed to standard error, status 1), "exit0 TEXT".
  void set_mode(const std::string& mode) { write("mode", mode); }
  void remove(const std::string& program) { std::filesystem::remove(folder_.path() / program); }
  std::string path() const { return folder_.path().string(); }

  // The arguments of all runs, a line for each, in the order in which they ended.
  std::string runs() const {
    std::ifstream stream(folder_.path() / "runs");
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

 private:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name) << text;
  }

  void add(const std::string& name) {
    const std::filesystem::path file = folder_.path() / name;
    std::ofstream(file) << R"py(#!/usr/bin/env python3
import os, socket, sys, time
folder = os.path.dirname(os.path.abspath(sys.argv[0]))
program = os.path.basename(sys.argv[0])
read = lambda name: open(os.path.join(folder, name)).read()
if sys.argv[1:] == ["--version"]:
    print("Version: " + read("version"))
    sys.exit(0)
if sys.argv[1:] == ["--help"]:
    print(read("help"))
    sys.exit(1)
with open(os.path.join(folder, "runs"), "a") as runs:
    runs.write(" ".join([program, *sys.argv[1:]]) + "\n")
port = next(int(word[7:]) for word in sys.argv if word.startswith("--port="))
mode, _, text = read("mode").partition(" ")
if sys.argv[-1].startswith("-"):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", port))
    server.listen(1)
    peer = server.accept()[0]
else:
    peer = socket.create_connection((sys.argv[-1], port))
if mode == "hang":
    time.sleep(1000)
if mode in ("error", "exit0"):
    sys.stderr.write(text + "\n")
    sys.exit(mode == "error")
if mode == "silent":
    sys.exit(0)
if program == "ib_write_bw":
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    print(" 4194304    100              0.00               180.25             0.005372")
else:
    print(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]")
    print(" 8       1000          1.10           9.00         1.50               1.60")
peer.shutdown(socket.SHUT_WR)
peer.recv(1)
)py";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  TempFolder folder_;
};

}  // namespace gdr::tools::doctor
