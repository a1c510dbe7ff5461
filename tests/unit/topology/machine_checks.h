// Checks and look-ups of a Machine for the tests of the sources.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/result.h"
#include "tests/fakes/temp_folder.h"
#include "topology/model.h"

namespace gdr::topology {

inline const std::string kTopologies = GDR_TOPOLOGIES;

struct Counts {
  size_t gpus, hcas, switches, numa_nodes;
  bool operator==(const Counts&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Counts& counts) {
  return out << counts.gpus << " GPUs, " << counts.hcas << " HCAs, " << counts.switches
             << " switches, " << counts.numa_nodes << " NUMA nodes";
}

inline Counts counts_of(const Machine& machine) {
  return {machine.gpus.size(), machine.hcas.size(), machine.switches.size(),
          machine.numa_nodes.size()};
}

inline const Hca& hca_named(const Machine& machine, const std::string& name) {
  static const Hca kNone;
  for (const Hca& hca : machine.hcas) {
    if (hca.name == name) return hca;
  }
  ADD_FAILURE() << "no HCA " << name;
  return kNone;
}

inline int numa_id(const Machine& machine, const Attachment& at) {
  return at.numa < 0 ? -2 : machine.numa_nodes.at(static_cast<size_t>(at.numa)).id;
}

// Returns the address of the nearest switch above, or "".
inline std::string switch_above(const Machine& machine, const Attachment& at) {
  return at.parent < 0 ? "" : machine.switches.at(static_cast<size_t>(at.parent)).bdf.to_string();
}

// What a file of tests/topologies holds. The NUMA nodes of its devices as "0 0 1".
struct FileFacts {
  const char* file;
  Counts counts;
  std::string gpu_nodes, hca_nodes;
};

template <class Device>
std::string nodes_of(const Machine& machine, const std::vector<Device>& devices) {
  std::string nodes;
  for (const Device& one : devices) {
    nodes += (nodes.empty() ? "" : " ") + std::to_string(numa_id(machine, one.at));
  }
  return nodes;
}

inline void expect_facts(const Machine& machine, const FileFacts& facts) {
  SCOPED_TRACE(facts.file);
  EXPECT_EQ(counts_of(machine), facts.counts);
  EXPECT_EQ(nodes_of(machine, machine.gpus), facts.gpu_nodes);
  EXPECT_EQ(nodes_of(machine, machine.hcas), facts.hca_nodes);
}

// Checks that all indexes are in range and that no switch is above itself.
inline void expect_consistent(const Machine& machine) {
  auto check = [&](const Attachment& at) {
    EXPECT_LT(at.parent, static_cast<int>(machine.switches.size()));
    EXPECT_LT(at.numa, static_cast<int>(machine.numa_nodes.size()));
    EXPECT_LT(at.host_bridge, static_cast<int>(machine.host_bridges.size()));
    size_t steps = 0;
    for (int i = at.parent; i >= 0; i = machine.switches.at(static_cast<size_t>(i)).at.parent) {
      ASSERT_LE(++steps, machine.switches.size());
    }
  };
  for (const Switch& item : machine.switches) check(item.at);
  for (const Gpu& item : machine.gpus) check(item.at);
  for (const Hca& item : machine.hcas) {
    check(item.at);
    EXPECT_FALSE(item.ports.empty());
  }
}

// Returns the text cut off, with a few bytes changed, with digits exchanged, with a piece removed
// or with a piece doubled.
inline std::string mutate(const std::string& text, std::mt19937* random) {
  auto position = [&] { return (*random)() % text.size(); };
  std::string changed = text;
  switch ((*random)() % 5) {
    case 0:
      changed.resize(position());
      break;
    case 1:
      for (int i = 0; i < 4; ++i) changed[position()] = static_cast<char>((*random)());
      break;
    case 2:
      for (size_t at = position(); at < text.size();
           at += 1 + (*random)() % (1 + text.size() / 8)) {
        at = text.find_first_of("0123456789", at);
        if (at == std::string::npos) break;
        changed[at] = static_cast<char>('0' + (*random)() % 10);
      }
      break;
    case 3:
      changed.erase(position(), (*random)() % 200);
      break;
    default: {
      size_t from = position();
      changed.insert(position(), text.substr(from, (*random)() % 200));
    }
  }
  return changed;
}

// Returns the machine that a source read, and checks it; an empty one after a failure.
inline Machine checked(const Result<Machine>& machine) {
  if (!machine) {
    ADD_FAILURE() << machine.error().text;
    return {};
  }
  expect_consistent(*machine);
  return *machine;
}

// Expects a reader to give an error or a machine for a text that is damaged in `count` ways.
template <class Read>
void expect_damage_survived(const std::string& text, int count, const Read& read) {
  ASSERT_FALSE(text.empty());
  std::mt19937 random(11);
  for (int i = 0; i < count; ++i) {
    const Result<Machine> machine = read(mutate(text, &random));
    if (machine) {
      expect_consistent(*machine);
    } else {
      EXPECT_FALSE(machine.error().text.empty());
    }
  }
}

inline std::string error_of(const Result<Machine>& machine) {
  return machine ? "no error" : machine.error().text;
}

}  // namespace gdr::topology
