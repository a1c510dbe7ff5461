// Machines of GPUs and HCAs under numbered switches, for the tests of rails.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "topology/builder.h"
#include "topology/rails.h"

namespace gdr::topology {

// Number 0 is no switch; switch s is on NUMA node (s-1)/2.
class RailsFixture : public ::testing::Test {
 protected:
  Attachment below(int number, int numa = 0) {
    Attachment at{-1, numa_index(&machine_, number > 0 ? (number - 1) / 2 : numa), -1};
    if (number <= 0) return at;
    Bdf bdf{0, static_cast<uint8_t>(number * 16), 0, 0};
    for (size_t i = 0; i < machine_.switches.size(); ++i) {
      if (machine_.switches[i].bdf == bdf) at.parent = static_cast<int>(i);
    }
    if (at.parent >= 0) return at;
    machine_.switches.push_back(Switch{bdf, at, 0x060400, {}, {}});
    at.parent = static_cast<int>(machine_.switches.size()) - 1;
    return at;
  }
  void gpu(int number, int numa = 0) {
    Gpu one;
    one.bdf = next_bdf(number);
    one.at = below(number, numa);
    machine_.gpus.push_back(one);
  }
  Hca& hca(int number, int gbps = 400, int numa = 0) {
    Hca one;
    one.name = "mlx5_" + std::to_string(machine_.hcas.size());
    one.bdf = next_bdf(number);
    one.at = below(number, numa);
    one.ports = {Port{1, Port::State::kActive, gbps * 1000, Port::LinkLayer::kInfiniBand}};
    machine_.hcas.push_back(one);
    return machine_.hcas.back();
  }
  // Adds one for each word: the number of its switch, and "@" with the NUMA node where that is 0.
  void add_gpus(const std::string& text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) gpu(std::stoi(word), after(word, '@', 0));
  }
  // The same with ":" and Gb/s behind the switch: "1", "1:25", "0:400@1", "2:2x100" of two ports.
  void add_hcas(const std::string& text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const int gbps = after(word, 'x', after(word, ':', 400));
      Hca& added = hca(std::stoi(word), gbps, after(word, '@', 0));
      if (word.find('x') == word.npos) continue;
      added.ports.push_back(added.ports[0]);
      added.ports[1].number = 2;
    }
  }
  void plan() {
    sort(&machine_);
    PathTable paths(machine_);
    Result<RailPlan> result = plan_rails(machine_, paths, options_);
    ASSERT_TRUE(result) << result.error().text;
    plan_ = *result;
  }
  // "mlx5_0" or "mlx5_0,mlx5_1" for each GPU.
  std::vector<std::string> by_gpu() {
    std::vector<std::string> all;
    for (size_t gpu = 0; gpu < plan_.gpus.size(); ++gpu) {
      std::string text;
      for (const Rail* rail : plan_.rails_of(gpu)) {
        text += (text.empty() ? "" : ",") + port_name(machine_, rail->port);
      }
      all.push_back(text);
    }
    return all;
  }
  // The reason for excluding the port.
  std::string why_excluded(const std::string& name) {
    for (const ExcludedPort& one : plan_.excluded) {
      if (port_name(machine_, one.port) == name) return one.reason;
    }
    return "a rail";
  }

  Machine machine_;
  RailOptions options_;
  RailPlan plan_;

 private:
  // The number behind the character, or the other one where it is not there.
  static int after(const std::string& word, char character, int otherwise) {
    const size_t at = word.find(character);
    return at == word.npos ? otherwise : std::stoi(word.substr(at + 1));
  }
  Bdf next_bdf(int number) {
    return Bdf{0, static_cast<uint8_t>(number * 16 + 1 + used_++ % 15),
               static_cast<uint8_t>(used_ / 15), 0};
  }
  int used_ = 0;
};

}  // namespace gdr::topology
