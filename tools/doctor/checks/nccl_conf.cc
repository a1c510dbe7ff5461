// NCCL's configuration files, as setEnvFile() in NCCL's src/misc/param.cc reads them: everything in
// front of '=' is the name, and everything behind it the value.
#include "plugin/config/nccl_conf.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "plugin/config/values.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostConfBytes = 1 << 20;
constexpr char kNameCharacters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

struct ConfLine {
  std::string file;
  int number;
  std::string text;

  std::string label() const { return fmt::format("{}:{}", config::printable(file), number); }
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Says what is wrong with a line; nothing where it is as it should be.
std::optional<Observation> judge_conf_line(const ConfLine& line) {
  const size_t equals = line.text.find('=');
  const std::string name = line.text.substr(0, equals), value = line.text.substr(equals + 1);
  const bool has_blank = name.find_first_of(" \t") != std::string::npos;
  const bool is_odd_name = name.find_first_not_of(kNameCharacters) != std::string::npos &&
                           (has_blank || strcasestr(name.c_str(), "nccl") != nullptr);
  const bool is_quoted = value.starts_with('"') || value.starts_with('\'');
  const bool is_padded = !value.empty() && (is_blank(value.front()) || is_blank(value.back()));
  const struct {
    bool is_there;
    const char* text;
    const char* fix;
  } faults[] = {
      {equals == std::string::npos, " has no '=', so that NCCL ignores it",
       "write NAME=VALUE, or '#' at the start of the line"},
      {is_odd_name,
       ": all in front of '=' is the name, and NCCL knows none with blanks, a word such as export, "
       "small letters or a byte order mark",
       "write NAME=VALUE at the start of the line, with the name in capitals"},
      {is_quoted, ": the quotes are a part of the value", "remove the quotes"},
      {value.find(" #") != std::string::npos, ": a comment behind a value is a part of it",
       "write the comment in a line of its own"},
      {is_padded, ": blanks around the value are a part of it", "remove the blanks"}};
  for (const auto& fault : faults) {
    if (!fault.is_there) continue;
    return warning(line.label(), fmt::format("\"{}\"{}", config::printable(line.text), fault.text),
                   fault.fix);
  }
  return {};
}

// The file with lines that end as on Windows.
Observation carriage_returns(const std::string& file) {
  return warning(config::printable(file),
                 "its lines end with CR LF: NCCL before 2.30 takes the CR for a part of each value",
                 "sed -i 's/\\r$//' " + topo::shell_word(file));
}

void judge_conf_text(const std::string& file, const std::string& text, Observations* seen) {
  if (text.find("\r\n") != std::string::npos || text.ends_with('\r')) {
    seen->push_back(carriage_returns(file));
  }
  std::istringstream lines(text);
  ConfLine line{file, 0, ""};
  while (std::getline(lines, line.text)) {
    ++line.number;
    if (!line.text.empty() && line.text.back() == '\r') line.text.pop_back();
    if (line.text.find_first_not_of(" \t") == std::string::npos || line.text[0] == '#') continue;
    if (auto wrong = judge_conf_line(line)) seen->push_back(std::move(*wrong));
  }
}

// Of a copied machine only /etc/nccl.conf is known; the file of the user is that of the doctor's
// own user.
std::vector<std::string> conf_files(const Host& host) {
  if (host.is_live) return config::nccl_conf_files(host.environment, host.process.home);
  return {host.path("/etc/nccl.conf").string()};
}

void judge_conf_file(const Host& host, const std::string& file, Observations* seen) {
  std::error_code error;
  const std::string shown = config::printable(file);
  const bool is_named = host.is_live && file == conf_files(host).front() &&
                        host.environment.contains("NCCL_CONF_FILE");
  if (!fs::exists(file, error)) {
    if (!is_named) return;
    seen->push_back(warning(shown,
                            "NCCL_CONF_FILE names it, and it does not exist: NCCL reads no "
                            "file of the user, without a message",
                            "correct NCCL_CONF_FILE, or unset it"));
    return;
  }
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > kMostConfBytes) {
    seen->push_back(warning(shown, "it is not an ordinary file of some lines", "replace it"));
    return;
  }
  std::ifstream stream(file);
  if (!stream.is_open()) {
    seen->push_back(warning(shown, "it cannot be read by this user, so that NCCL ignores it",
                            fmt::format("chmod a+r {}", shown)));
    return;
  }
  std::ostringstream text;
  text << stream.rdbuf();
  judge_conf_text(file, text.str(), seen);
  config::Environment set;
  config::ConfPlaces places;
  config::add_nccl_conf(file, &set, &places);
  seen->push_back(ok(shown, fmt::format("it sets {} variable{} of NCCL or the plugin", set.size(),
                                        set.size() == 1 ? "" : "s")));
}

}  // namespace

Observations run_nccl_conf(const Host& host) {
  Observations seen;
  for (const std::string& file : conf_files(host)) judge_conf_file(host, file, &seen);
  if (seen.empty() && !host.exists("/etc")) {
    return {unknown("", "there is no /etc", "copy /etc from the machine")};
  }
  if (seen.empty()) seen.push_back(ok("", "there is no configuration file of NCCL"));
  return seen;
}

}  // namespace gdr::tools::doctor
