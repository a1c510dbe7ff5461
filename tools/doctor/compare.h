// Which machines differ from the others or from a good one, and in what.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/differences.h"
#include "tools/doctor/profile.h"

namespace gdr::tools::doctor {

// A machine that is not like the reference.
struct Deviation {
  std::string node;
  std::vector<Difference> differences;  // of the machine from the reference
};

struct Comparison {
  size_t nodes = 0;
  std::string reference;                // the name of the machine that the others are compared with
  std::vector<std::string> alike = {};  // those without differences from it
  // Whether the reference is a good machine, or of a group that is larger than every other one. If
  // not, nothing says that it is right.
  bool is_reference_right = true;
  std::vector<Deviation> deviations = {};
};

// Compares at least one machine with the largest group of those that are alike.
Comparison compare_fleet(const std::vector<Profile>& nodes);

// Compares a machine with one that is known to be good.
Comparison compare_with_good(const Profile& node, const Profile& good);

// A line for each difference, then one that says which machines differ.
std::string to_text(const Comparison& comparison);
std::string to_json(const Comparison& comparison);

}  // namespace gdr::tools::doctor
