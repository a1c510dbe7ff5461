#include "plugin/config/options.h"

#include <string_view>

#include "plugin/config/variables.h"

namespace gdr::config {
namespace {

constexpr std::string_view kOwnPrefix = "GDR_NCCL_";

std::string rejection(const Variable& variable, const std::string& value,
                      const std::string& reason) {
  return std::string(variable.name) + " is " + quoted(value) + ", which cannot be used: " + reason +
         "; accepted: " + variable.accepted + "; the default stands: " + variable.default_text;
}

void read(const Variable& variable, const std::string& value, Options* options,
          std::vector<Diagnostic>* diagnostics) {
  std::vector<std::string> notes;
  Status status = variable.assign(value, options, &notes);
  if (!status) {
    diagnostics->push_back({variable.name, rejection(variable, value, status.error().text), true});
    return;
  }
  for (const std::string& note : notes) {
    diagnostics->push_back(
        {variable.name, std::string(variable.name) + " is " + quoted(value) + ": " + note, false});
  }
}

// NCCL reads the range in the family wanted, so that a range of the other one counts for nothing.
void check_range_family(const Environment& environment, Options* options,
                        std::vector<Diagnostic>* diagnostics) {
  if (!options->address_range || options->address_range->family == options->address_family) return;
  options->address_range.reset();
  for (const Variable& variable : variables()) {
    auto set = environment.find(variable.name);
    if (std::string_view(variable.name) != "NCCL_IB_ADDR_RANGE" || set == environment.end()) {
      continue;
    }
    std::string reason = std::string("NCCL_IB_ADDR_FAMILY is ") +
                         family_name(options->address_family) + ", and it is of the other family";
    diagnostics->push_back({variable.name, rejection(variable, set->second, reason), true});
  }
}

std::string nearest_name(const std::string& name) {
  const Variable* nearest = nullptr;
  size_t least = 0;
  for (const Variable& variable : variables()) {
    size_t distance = edit_distance(name, variable.name);
    if (nearest != nullptr && distance >= least) continue;
    nearest = &variable;
    least = distance;
  }
  return nearest->name;
}

void check_unknown(const Environment& environment, std::vector<Diagnostic>* diagnostics) {
  for (auto it = environment.lower_bound(kOwnPrefix); it != environment.end(); ++it) {
    const std::string& name = it->first;
    if (std::string_view(name).substr(0, kOwnPrefix.size()) != kOwnPrefix) break;
    bool known = false;
    for (const Variable& variable : variables()) known = known || name == variable.name;
    if (known) continue;
    diagnostics->push_back({name,
                            quoted(name) + " is set, but the plugin reads no such variable; the " +
                                "nearest is " + nearest_name(name),
                            false});
  }
}

}  // namespace

Options load(const Environment& environment, std::vector<Diagnostic>* diagnostics) {
  Options options;
  std::vector<Diagnostic> ignored;
  if (diagnostics == nullptr) diagnostics = &ignored;
  for (const Variable& variable : variables()) {
    auto set = environment.find(variable.name);
    // Set to nothing is unset, as for NCCL.
    if (set == environment.end() || set->second.empty()) continue;
    read(variable, set->second, &options, diagnostics);
  }
  check_range_family(environment, &options, diagnostics);
  check_unknown(environment, diagnostics);
  return options;
}

}  // namespace gdr::config
