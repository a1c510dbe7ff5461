// By what --burn-in measures: perftest or nccl-gdr perf.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/doctor/burn_in.h"

namespace gdr::tools::doctor {

// --burn-in-with
enum class BurnInWith : uint8_t {
  kAuto,  // perftest where it is installed, on both machines in the same version
  kPerftest,
  kPerf,
};

const char* name_of(BurnInWith with);  // "auto"
// Fails with kInvalidArgument.
Result<BurnInWith> parse_burn_in_with(const std::string& text);

// What a machine can do and was asked for; each machine has the other one's.
struct BurnInOffer {
  BurnInWith with = BurnInWith::kAuto;
  std::string perftest;        // its version, "6.06"; "": it cannot be used, see `lacks`
  std::string lacks;           // "ib_write_bw is not in PATH. Fix: install the package perftest"
  bool perftest_gpus = false;  // whether it was built with CUDA
  std::string paths;           // 'h' for host memory and 'g' for a GPU's, in order: "hgghgg"
};

// An offer as the hello of BurnInLink, and back; what is missing there is as in BurnInOffer{}.
nlohmann::json to_json(const BurnInOffer& offer);
BurnInOffer burn_in_offer(const nlohmann::json& hello);

std::string burn_in_paths(const std::vector<BurnInCase>& cases);

struct BurnInChoice {
  bool perftest_for_host = false;
  bool perftest_for_gpus = false;  // else by nccl-gdr perf
};

// Returns the same on both machines; for "local" both offers are the same. kInvalidUsage, with
// --burn-in-with in the text, where the machines cannot measure together as they were asked to.
Result<BurnInChoice> choose_burn_in(const BurnInOffer& own, const BurnInOffer& other);

}  // namespace gdr::tools::doctor
