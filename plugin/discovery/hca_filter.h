// NCCL_IB_HCA: the HCAs and ports that the user allows, and the rails that the user gives them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "plugin/discovery/name_list.h"

namespace gdr::discovery {

// A list of HCAs in the grammar of name_list.h, `[^][=]entry(,entry)*`, in which an entry is
// `name[:port[:rail[:plane]]]`. Examples:
//   mlx5              every port of every HCA whose name starts with "mlx5"
//   =mlx5_1,mlx5_3:2  every port of mlx5_1, and port 2 of mlx5_3; not mlx5_10
//   ^mlx5_2:1         every port but port 1 of HCAs whose name starts with "mlx5_2"
//   ^=mlx5_2          every HCA but mlx5_2
//   mlx5_0::0,mlx5_4::1  mlx5_0 is rail 0 and mlx5_4 rail 1; an empty field is not given
// The first entry that matches a port counts. An unset or empty variable accepts every port. Rail
// and plane are numbers from 0 to 32767; the plane is for NCCL, and has no effect here. What
// cannot be read is left out; in a list of exclusions, the whole HCA that it names is excluded.
class HcaFilter {
 public:
  // Why a port that is not accepted is skipped.
  static constexpr char kExcluded[] = "is excluded by NCCL_IB_HCA";

  using Entry = NameList::Entry;

  HcaFilter() = default;  // accepts every port
  // Never fails: notes() has what cannot be read. Where nothing can, no port is accepted.
  static Result<HcaFilter> parse(std::string_view text);

  bool accepts(std::string_view device, int port) const;
  // Returns the entry that accepts this port, for its rail. Null if no entry names it, or if the
  // list is one of exclusions.
  const Entry* entry_for(std::string_view device, int port) const;
  // Whether an entry accepts this port by the HCA's whole name, not only by a prefix of it.
  bool names_in_full(std::string_view device, int port) const;
  size_t size() const { return list_.entries.size(); }
  // Ports of a machine, each an HCA's name and a port's number.
  using Ports = std::vector<std::pair<std::string, int>>;
  // What the list does on a machine of these ports that its author may not mean; subject
  // NCCL_IB_HCA. NCCL itself says nothing about it:
  // - kHcaUnmatched: all entries that match none of the ports.
  // - kHcaPrefix: an entry that is the whole name of an HCA also matches others, as mlx5_1 matches
  //   mlx5_10. The fix has the list by whole names.
  Findings findings_on(const Ports& ports) const;
  // The list by whole names, which does not match what entries match as beginnings of names only.
  std::string exact_text(const Ports& ports) const;
  // What could not be read, for the user.
  Findings notes() const { return list_.notes("port"); }
  // The filter in the grammar above; "^" where no port is accepted.
  std::string to_string() const { return list_.to_string(); }

 private:
  bool matches(const Entry& entry, std::string_view device, int port) const;
  const Entry* match(std::string_view device, int port) const;
  std::set<std::string> hcas_by_prefix(const Ports& ports, std::set<std::string>* by) const;

  NameList list_;
};

}  // namespace gdr::discovery
