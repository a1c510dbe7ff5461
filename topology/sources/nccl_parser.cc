#include "topology/sources/nccl_parser.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <utility>

namespace gdr::topology {
namespace {

constexpr size_t kMostText = 253;      // characters of a name or value that fit (MAX_STR_LEN)
constexpr size_t kMostNodes = 255;     // NCCL stops once 256 are full (NCCL_TOPO_XML_MAX_NODES)
constexpr size_t kMostChildren = 128;  // MAX_SUBS; 640 from 2.29.7
constexpr size_t kMostAttributes = 16;

// Which elements NCCL looks for in which: it skips others with all that they contain.
struct Place {
  const char* parent;
  const char* child;
};
constexpr Place kPlaces[] = {{"", "system"}, {"system", "cpu"},  {"cpu", "pci"},
                             {"cpu", "nic"}, {"pci", "pci"},     {"pci", "gpu"},
                             {"pci", "nic"}, {"pci", "pcilink"}, {"gpu", "nvlink"},
                             {"gpu", "c2c"}, {"nic", "net"}};

bool is_place(std::string_view parent, std::string_view child) {
  return std::any_of(std::begin(kPlaces), std::end(kPlaces),
                     [&](const Place& one) { return one.parent == parent && one.child == child; });
}

// Returns the elements that may contain this one: "<cpu> or <pci>"; "" for a name unknown to NCCL.
std::string parents_of(std::string_view child) {
  std::string parents;
  for (const Place& one : kPlaces) {
    if (one.child != child || *one.parent == '\0') continue;
    parents += (parents.empty() ? "<" : " or <") + std::string(one.parent) + ">";
  }
  return parents;
}

std::string named(char c) {
  if (c == '\t') return "a tab";
  if (c == '\n' || c == '\r') return "the end of the line";
  if (c < ' ' || c == 0x7f) return "a byte outside printable ASCII";
  return c == ' ' ? "a blank" : std::string("'") + c + "'";
}

constexpr char kBlanks[] = "use blanks instead of tabs";
constexpr char kUnclosed[] = "close it";
constexpr char kShorter[] = "shorten it";
constexpr char kFewer[] = "remove devices that the job does not use";

class NcclParser {
 public:
  explicit NcclParser(std::string_view text) : text_(text) {}

  std::vector<NcclDiagnostic> run() {
    while (read_next()) {
    }
    return std::move(diagnostics_);
  }

 private:
  enum class Type { kEnd, kOpen, kClose, kSingle };
  struct Element {
    Type type = Type::kEnd;
    std::string name;
    std::optional<std::string> version;  // the first attribute of that name
    size_t at = 0;                       // of its '<'
    bool is_known = false;
    size_t children = 0;
  };

  void report(bool refused, size_t at, std::string text, std::string fix) {
    if (!refused && diagnostics_.size() >= kMostNcclDiagnostics) return;
    const auto end = text_.begin() + static_cast<ptrdiff_t>(std::min(at, text_.size()));
    const auto line = static_cast<int>(1 + std::count(text_.begin(), end, '\n'));
    diagnostics_.push_back({refused, line, std::move(text), std::move(fix)});
  }

  bool refuse(size_t at, std::string text, std::string fix) {
    report(true, at, std::move(text), std::move(fix));
    return false;
  }

  bool get(char* c) {
    if (at_ == text_.size()) return refuse(at_, "the file ends within an element", kUnclosed);
    *c = text_[at_++];
    return true;
  }

  // Reads a name up to *last.
  bool read_name(std::string* name, char* last) {
    const size_t from = at_;
    while (get(last)) {
      if (*last == '=') return true;
      if (name->size() > kMostText) {
        return refuse(from, "a name of more than 253 characters", kShorter);
      }
      if (*last == ' ' || *last == '>' || *last == '/' || *last == '\n' || *last == '\r')
        return true;
      *name += *last;
    }
    return false;
  }

  // NCCL before 2.27 reads to the next double quote, whatever the first was, and past the end of
  // its buffer where the value is too long.
  bool read_value(std::string* value, char* last) {
    const size_t from = at_;
    if (!get(last)) return false;
    if (*last != '"') {
      return refuse(
          from,
          named(*last) + " behind '=', where NCCL expects a double quote (2.27: or a single one)",
          "write NAME=\"VALUE\", without blanks around '='");
    }
    while (get(last)) {
      if (*last == '"') return get(last);
      if (value->size() >= kMostText) {
        return refuse(from, "a value of more than 253 characters", kShorter);
      }
      *value += *last;
    }
    return false;
  }

  // `start` is what was read of it.
  bool skip_comment(size_t from, const std::string& start) {
    std::string end = (".." + start).substr(start.size() - 1);
    while (end != "-->") {
      if (at_ == text_.size()) return refuse(from, "a comment that does not end", kUnclosed);
      end = end.substr(1) + text_[at_++];
    }
    return true;
  }

  // Reads the next element or its end; *element is of kEnd at the end of the file.
  bool read_element(Element* element) {
    for (;;) {
      *element = {};
      at_ = std::min(text_.find_first_not_of(" \n\r", at_), text_.size());
      element->at = at_;
      if (at_ == text_.size()) return true;
      char c = text_[at_++];
      if (c != '<') {
        const char* fix = c == '\t' ? kBlanks
                          : has_byte_order_mark()
                              ? "save the file as UTF-8 without a byte order mark"
                              : "remove all text between elements";
        return refuse(element->at, named(c) + ", where NCCL expects the next element", fix);
      }
      if (!read_name(&element->name, &c)) return false;
      if (c == '=') {
        return refuse(element->at, "'=' within the first word of an element or a comment",
                      "put one blank behind that word, or behind <!--");
      }
      if (!element->name.starts_with("!--")) return read_rest(element, c);
      if (!skip_comment(element->at, element->name.substr(3) + c)) return false;
    }
  }

  // Whether reading ended at the mark of UTF-8 or UTF-16.
  bool has_byte_order_mark() const {
    return at_ == 1 && (text_.starts_with("\xef\xbb\xbf") || text_.starts_with("\xff\xfe") ||
                        text_.starts_with("\xfe\xff"));
  }

  bool read_rest(Element* element, char c) {
    if (element->name.starts_with("?") || element->name.starts_with("!")) {
      return refuse(element->at, "<" + element->name + ">, an element to NCCL, does not end",
                    "remove this line");
    }
    element->type = element->name.empty() && c == '/' ? Type::kClose : Type::kOpen;
    if (element->type == Type::kOpen && !read_attributes(element, &c)) return false;
    if (c == '/') {
      if (element->type == Type::kOpen) element->type = Type::kSingle;
      std::string ignored;
      if (!read_name(element->type == Type::kClose ? &element->name : &ignored, &c)) return false;
    }
    if (c == '>') return true;
    return refuse(at_ - 1, named(c) + " within <" + element->name + ">, where NCCL expects '>'",
                  "write the element on one line, with single blanks");
  }

  bool read_attributes(Element* element, char* c) {
    for (size_t count = 0; *c == ' '; ++count) {
      std::string key, value;
      if (!read_name(&key, c)) return false;
      const bool has_value = *c == '=';
      if (has_value && !read_value(&value, c)) return false;
      if (key == "version" && count < kMostAttributes && !element->version) {
        element->version = value;
      }
      const bool has_tab = std::erase(key, '\t') > 0;
      if (key.empty() || (has_value && count < kMostAttributes && !has_tab)) continue;
      report(
          false, at_ - 1,
          (has_tab ? "NCCL takes the tab for a part of the name " : "NCCL ignores the value of ") +
              key + " in <" + element->name + ">",
          has_tab ? kBlanks
                  : "write NAME=\"VALUE\" without blanks around '=', and at most 16 of them, "
                    "with single blanks");
    }
    return true;
  }

  // Returns false at the end of the file, and where NCCL refuses it.
  bool read_next() {
    if (nodes_ > kMostNodes) {
      return refuse(at_, "more than 255 elements (before 2.21: 1023)", kFewer);
    }
    Element element;
    if (!read_element(&element)) return false;
    if (element.type == Type::kEnd) {
      return !open_.empty() &&
             refuse(open_.back().at, "<" + open_.back().name + "> does not end", kUnclosed);
    }
    if (element.type != Type::kClose || open_.empty()) return open(std::move(element));
    const Element& head = open_.back();
    if (head.is_known && head.name != element.name) {
      return refuse(element.at, "</" + element.name + ">, where <" + head.name + "> is open",
                    "write </" + head.name + ">");
    }
    open_.pop_back();
    return true;
  }

  bool open(Element element) {
    Element* parent = open_.empty() ? nullptr : &open_.back();
    element.is_known = (parent == nullptr || parent->is_known) &&
                       is_place(parent == nullptr ? "" : parent->name, element.name);
    if (!element.is_known) {
      const std::string parents = parents_of(element.name);
      if (!parents.empty()) {
        report(false, element.at, "NCCL ignores a <" + element.name + "> outside " + parents,
               "move it into " + parents);
      }
    } else if (++nodes_; parent != nullptr && ++parent->children > kMostChildren) {
      return refuse(element.at,
                    "more than 128 elements in one <" + parent->name + "> (before 2.29.7)", kFewer);
    } else if (parent == nullptr &&
               std::strtol(element.version.value_or("").c_str(), nullptr, 0) != 1) {
      return refuse(element.at, "<system> is not of version 1", "write <system version=\"1\">");
    }
    if (element.type != Type::kSingle) open_.push_back(std::move(element));
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t nodes_ = 0;
  std::vector<Element> open_;
  std::vector<NcclDiagnostic> diagnostics_;
};

}  // namespace

std::vector<NcclDiagnostic> nccl_diagnostics(std::string_view text) {
  return NcclParser(text).run();
}

Findings nccl_findings(const std::string& file, const std::vector<NcclDiagnostic>& diagnostics) {
  Findings findings;
  for (auto one = diagnostics.begin(); one != diagnostics.end(); ++one) {
    auto is_same = [&](const NcclDiagnostic& other) { return other.text == one->text; };
    if (std::any_of(diagnostics.begin(), one, is_same)) continue;
    const auto more = std::count_if(one, diagnostics.end(), is_same) - 1;
    const std::string place = file + ":" + std::to_string(one->line) + ": ";
    const std::string text =
        one->text + (more == 0   ? ""
                     : more == 1 ? " (and in another place)"
                                 : " (and in " + std::to_string(more) + " other places)");
    if (one->refused) {
      findings.push_back({FindingKind::kNcclFails, Severity::kError, "",
                          place + "NCCL refuses this as its topology file, and fails: " + text,
                          one->fix});
    } else {
      findings.push_back(
          {FindingKind::kTopologyFile, Severity::kWarning, "", place + text, one->fix});
    }
  }
  return findings;
}

}  // namespace gdr::topology
