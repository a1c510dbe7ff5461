// A /sys composed for a test, in a temporary folder, with relative links like the kernel's. Tests
// may add /proc beside it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/temp_folder.h"

namespace gdr::topology {

namespace fs = std::filesystem;

class MadeSysfs : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file, std::ios::binary) << text;
  }
  void link(const fs::path& from, const fs::path& to) {
    fs::create_directories((root_ / from).parent_path());
    fs::create_symlink(fs::relative(root_ / to, (root_ / from).parent_path()), root_ / from);
  }
  // Adds a folder under devices/ with its subsystem link.
  fs::path device(const fs::path& path, const std::string& subsystem) {
    fs::create_directories(root_ / "devices" / path);
    fs::create_directories(root_ / "bus" / subsystem);
    link("devices" / path / "subsystem", "bus/" + subsystem);
    return "devices" / path;
  }
  // Adds class/infiniband/<name> with the device link of an HCA.
  fs::path hca(const std::string& name, const fs::path& function) {
    fs::create_directories(root_ / function / "infiniband" / name);
    link(function / "infiniband" / name / "device", function);
    link("class/infiniband/" + name, function / "infiniband" / name);
    return root_ / "class/infiniband" / name;
  }
  // Adds a virtual RDMA device: without a device link, but with a parent file.
  fs::path virtual_hca(const std::string& name, const std::string& parent) {
    write("devices/virtual/infiniband/" + name + "/parent", parent);
    link("class/infiniband/" + name, "devices/virtual/infiniband/" + name);
    return root_ / "class/infiniband" / name;
  }
  std::string absolute(const fs::path& path) { return (root_ / path).string(); }

  const TempFolder folder_;
  const fs::path top_ = folder_.path();
  const fs::path root_ = top_ / "sys";
};

}  // namespace gdr::topology
