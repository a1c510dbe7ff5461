#include "tools/doctor/report/profile.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/inspection/file_content.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Device, name, address, guid, properties, paths, choices)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Profile, host, machine, settings, devices)

namespace {

constexpr char kFingerprintFormat[] = "nccl-gdr-fingerprint";
constexpr int kFingerprintVersion = 3;

}  // namespace

Result<std::string> text_of_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return fail_errno(Code::kInvalidArgument, "cannot be read", errno);
  std::optional<std::string> text = topo::rest_of_stream(stream, topo::kMostFileBytes);
  if (text.has_value()) return std::move(*text);
  return fail(Code::kInvalidArgument,
              stream.bad() ? "cannot be read" : "is larger than any output of the doctor");
}

std::string json_error(const std::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 3, column 7: ...": the library's own
  // numbers and advice say nothing to a user.
  const auto* syntax = dynamic_cast<const nlohmann::json::parse_error*>(&error);
  if (syntax == nullptr) return "it lacks a key, or has another type of value";
  return fmt::format("its JSON is damaged or cut off at byte {}", syntax->byte);
}

std::string to_json(const Profile& profile) {
  nlohmann::json json = profile;
  json["format"] = kFingerprintFormat;
  json["version"] = kFingerprintVersion;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<Profile> parse_fingerprint(const std::string& text) {
  constexpr char kMake[] = ". Fix: make one by nccl-gdr doctor --fingerprint";
  try {
    const auto json = nlohmann::json::parse(text);
    if (!json.is_object() || !json.contains("format") || json["format"] != kFingerprintFormat) {
      return fail(Code::kInvalidArgument, std::string("is not a fingerprint") + kMake);
    }
    if (json.at("version") == kFingerprintVersion) {
      auto profile = json.get<Profile>();
      profile.host = topo::clean_text(profile.host);
      return profile;
    }
    return fail(Code::kInvalidArgument,
                fmt::format("is not of version {}, which this program reads{}", kFingerprintVersion,
                            kMake));
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::kInvalidArgument,
                fmt::format("is not a fingerprint: {}{}", json_error(error), kMake));
  }
}

Result<Profile> read_fingerprint(const std::string& file) {
  Result<std::string> text = text_of_file(file);
  Result<Profile> profile = text ? parse_fingerprint(*text) : forward_error(text);
  if (profile) return profile;
  return fail(profile.error().code, topo::clean_text("\"" + file + "\" " + profile.error().text));
}

std::string lacking_in(const Profile& profile) {
  for (const char* kind : {kGpuKind, kHcaKind}) {
    const auto devices = profile.devices.find(kind);
    if (devices == profile.devices.end() || devices->second.empty()) return kind;
  }
  return "";
}

}  // namespace gdr::tools::doctor
