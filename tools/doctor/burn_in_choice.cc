#include "tools/doctor/burn_in_choice.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

constexpr BurnInWith kBurnInWiths[] = {BurnInWith::kAuto, BurnInWith::kPerftest, BurnInWith::kPerf};

constexpr size_t kMostOfAText = 500;  // that the other machine sends

std::string text_in(const nlohmann::json& hello, const char* key) {
  const auto found = hello.find(key);
  if (found == hello.end() || !found->is_string()) return "";
  return topo::clean_text(found->get<std::string>().substr(0, kMostOfAText));
}

tl::unexpected<Error> lacks_perftest(const std::string& who, const std::string& lacks) {
  const std::string text = fmt::format("--burn-in-with perftest: {} has none", who);
  return fail(Code::kInvalidUsage,
              lacks.empty() ? text + ". Fix: install it there, or --burn-in-with perf on both"
                            : text + ": " + lacks + ", or --burn-in-with perf");
}

}  // namespace

const char* name_of(BurnInWith with) {
  switch (with) {
    case BurnInWith::kAuto:
      return "auto";
    case BurnInWith::kPerftest:
      return "perftest";
    case BurnInWith::kPerf:
      return "perf";
  }
  return "";
}

Result<BurnInWith> parse_burn_in_with(const std::string& text) {
  for (BurnInWith one : kBurnInWiths) {
    if (text == name_of(one)) return one;
  }
  return fail(Code::kInvalidArgument,
              "\"" + text + "\" measures nothing. Fix: auto, perftest or perf");
}

nlohmann::json to_json(const BurnInOffer& offer) {
  return {{"with", name_of(offer.with)},
          {"perftest", offer.perftest},
          {"lacks", offer.lacks},
          {"perftest_gpus", offer.perftest_gpus},
          {"paths", offer.paths}};
}

BurnInOffer burn_in_offer(const nlohmann::json& hello) {
  BurnInOffer offer;
  offer.with = parse_burn_in_with(text_in(hello, "with")).value_or(BurnInWith::kAuto);
  offer.perftest = text_in(hello, "perftest");
  offer.lacks = text_in(hello, "lacks");
  const auto gpus = hello.find("perftest_gpus");
  offer.perftest_gpus = gpus != hello.end() && gpus->is_boolean() && gpus->get<bool>();
  const auto paths = hello.find("paths");
  if (paths != hello.end() && paths->is_string()) offer.paths = paths->get<std::string>();
  return offer;
}

std::string burn_in_paths(const std::vector<BurnInCase>& cases) {
  std::string paths;
  for (const BurnInCase& one : cases) paths += uses_gpu(one) ? 'g' : 'h';
  return paths;
}

Result<BurnInChoice> choose_burn_in(const BurnInOffer& own, const BurnInOffer& other) {
  for (const auto& [machine, offer, where] :
       {std::tuple("this machine", &own, "here"), {"the other machine", &other, "there"}}) {
    if (!offer->paths.empty() || own.paths == other.paths) continue;
    return fail(Code::kInvalidUsage,
                fmt::format("{} has no usable rail. Fix: nccl-gdr doctor and nccl-gdr topo, run "
                            "{}, say why",
                            machine, where));
  }
  if (own.paths != other.paths) {
    return fail(
        Code::kInvalidUsage,
        fmt::format("this machine has {} paths to measure and the other one {}, or they are "
                    "of other kinds. Fix: choose the same ports on both, as by NCCL_IB_HCA; "
                    "nccl-gdr topo shows the rails",
                    own.paths.size(), other.paths.size()));
  }
  if (own.with != other.with) {
    return fail(Code::kInvalidUsage,
                fmt::format("--burn-in-with is {} here and {} on the other machine. Fix: start the "
                            "same command on both",
                            name_of(own.with), name_of(other.with)));
  }
  if (own.with == BurnInWith::kPerf) return BurnInChoice{};
  if (own.with == BurnInWith::kPerftest && own.perftest.empty()) {
    return lacks_perftest("this machine", own.lacks);
  }
  if (own.with == BurnInWith::kPerftest && other.perftest.empty()) {
    return lacks_perftest("the other machine", other.lacks);
  }
  // The ends of different versions may not understand each other.
  const bool is_usable = !own.perftest.empty() && !other.perftest.empty() &&
                         (own.with == BurnInWith::kPerftest || own.perftest == other.perftest);
  return BurnInChoice{is_usable, is_usable && own.perftest_gpus && other.perftest_gpus};
}

}  // namespace gdr::tools::doctor
