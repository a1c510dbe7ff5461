#include <string>

#include "plugin/config/not_applicable.h"
#include "plugin/config/variables.h"

namespace gdr::config {
namespace {

constexpr char kIntroduction[] = R"(# Environment variables

<!-- Generated from plugin/config/options.def by `nccl-gdr env --markdown`; do not edit. -->

The plugin reads these variables once, when NCCL initialises it. Those named `NCCL_*` have the meanings
and defaults that they have in NCCL. Variables that only NCCL's core reads, such as `NCCL_CROSS_NIC`, work
as usual and are not listed. `nccl-gdr env` prints this list with the values in force.

A value that cannot be used is logged as a warning that names the variable, the value and what is
accepted, and the default is used. A variable set to nothing counts as unset. A variable named
`GDR_NCCL_*` that is not listed here is logged as a warning, with the nearest name if it is like one; so is one named
`NCCL_IB_*` or `NCCL_SOCKET_*` that looks like a misspelling of a listed one. Those that NCCL's own InfiniBand
transport reads and the plugin does not are listed at the end.

NCCL puts the settings of its configuration files (`$NCCL_CONF_FILE` or `~/.nccl.conf`, then
`/etc/nccl.conf`) into the environment before it loads plugins, so the plugin sees them; `nccl-gdr`
reads only the environment. Neither sees what NCCL asks an environment plugin (`NCCL_ENV_PLUGIN`) for.

Numbers may be decimal, hexadecimal (`0x1f`) or, with a leading 0, octal. Here the plugin is
stricter than NCCL, which reads `7x` as 7, a word as 0, any number but 0 as 1 where 0 or 1 is meant,
and passes numbers that are out of range on to the HCA.
)";

// Escapes what Markdown would interpret: '|' ends a cell, '*' starts emphasis, '[' a link.
std::string cell(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (c == '|' || c == '*' || c == '[') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string code(const std::string& text) { return "`" + text + "`"; }

std::string heading(const char* group) {
  return "\n## " + std::string(group) +
         "\n\n| variable | accepted | default | meaning |\n|---|---|---|---|\n";
}

std::string line(const Variable& variable) {
  std::string accepted = variable.accepted;
  if (*variable.unit != '\0') accepted += "; " + std::string(variable.unit);
  return "| " + code(variable.name) + " | " + cell(accepted) + " | " + cell(variable.default_text) +
         " | " + cell(variable.doc) + " |\n";
}

constexpr char kNotApplicable[] = R"(
## Variables that do not apply

NCCL's own InfiniBand transport reads these, and the plugin does not. One that is set to another value
than the default, and asks for something that the plugin does not do, is logged once: as a warning
where that matters, else at INFO.

| variable | default in NCCL 2.30 | what the plugin does |
|---|---|---|
)";

std::string not_applicable_line(const NotApplicable& variable) {
  std::string text = "| " + code(variable.name) + " | " + std::to_string(variable.default_value) +
                     " | " + cell(variable.reason);
  if (*variable.fix != '\0') text += ". Fix: " + cell(variable.fix);
  return text + " |\n";
}

}  // namespace

std::string markdown() {
  std::string text = kIntroduction;
  std::string group;
  for (const Variable& variable : variables()) {
    if (variable.group != group) text += heading(variable.group);
    group = variable.group;
    text += line(variable);
  }
  text += kNotApplicable;
  for (const NotApplicable& variable : not_applicable()) text += not_applicable_line(variable);
  return text;
}

}  // namespace gdr::config
