// Reads the text exposition format of Prometheus, as strictly as `promtool check metrics` reads it,
// so that tests need no promtool.
#pragma once

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace gdr::plugin {

struct ReadStats {
  std::map<std::string, std::string> types;  // by metric
  std::map<std::string, double> series;      // by name and labels, as they stand there
  std::vector<std::string> faults;           // what a collector or promtool would object to
};

// Each metric once: HELP, TYPE, then all its series; counters end in _total and others do not;
// names and labels are spelled as allowed; no series twice; a line feed at the end.
inline ReadStats read_stats(const std::string& text) {
  static const std::regex kHelp("# HELP ([a-z_:][a-z0-9_:]*) \\S.*\\.");
  static const std::regex kType("# TYPE ([a-z_:][a-z0-9_:]*) (counter|gauge)");
  static const std::regex kSeries(
      "([a-z_:][a-z0-9_:]*)(\\{([a-z_]+=\"([^\"\\\\]|\\\\[\\\\n\"])*\",?)+\\}) ([0-9]+)");
  ReadStats read;
  std::set<std::string> helped;
  std::string current;
  std::istringstream lines(text);
  auto fault = [&read](const std::string& what) { read.faults.push_back(what); };
  if (text.empty() || text.back() != '\n') fault("no line feed at the end");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) {
      if (!helped.insert(match[1]).second) fault("second HELP: " + line);
      current = match[1];
    } else if (std::regex_match(line, match, kType)) {
      if (match[1] != current) fault("TYPE without its HELP: " + line);
      const bool is_counter = match[2] == "counter";
      if (is_counter != current.ends_with("_total")) fault("_total is for counters: " + line);
      read.types[current] = match[2];
    } else if (std::regex_match(line, match, kSeries)) {
      if (match[1] != current || !read.types.contains(current)) fault("not in its place: " + line);
      const std::string name = match[1].str() + match[2].str();
      if (!read.series.emplace(name, std::stod(match[5])).second) fault("twice: " + line);
    } else {
      fault("cannot be read: " + line);
    }
  }
  return read;
}

}  // namespace gdr::plugin
