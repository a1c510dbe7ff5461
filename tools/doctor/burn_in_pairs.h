// What the pairs of rails of one run of --burn-in local show together: whether a fabric may be
// meant to keep two rails apart, or connects them, so that no message between them is a fault.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "tools/doctor/burn_in_cases.h"

namespace gdr::tools::doctor {

class BurnInPairs {
 public:
  void add(const BurnInEnd& sender, const BurnInEnd& receiver, bool is_reached);

  // Why it is a fault that no message got from the one to the other; "" where the fabric may keep
  // the two apart. It is one where other pairs connect the two, or where other rails of the fabric
  // reach each other and one of the two has failed with each of several.
  std::string fault_of(const BurnInEnd& sender, const BurnInEnd& receiver) const;

 private:
  std::set<int> connected_to(int device) const;
  bool reaches_none(const BurnInEnd& end) const;
  bool is_used(const std::string& fabric) const;

  // By the numbers of sender and receiver.
  std::set<std::pair<int, int>> reached_, unreached_;
  std::map<int, std::string> fabrics_;  // by the number of the rail
};

}  // namespace gdr::tools::doctor
