#include "topology/sources/nccl_parser.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gdr::topology {
namespace {

constexpr size_t kMostText = 253;      // characters of a name or value that fit (MAX_STR_LEN)
constexpr size_t kMostNodes = 255;     // NCCL stops once 256 are full (NCCL_TOPO_XML_MAX_NODES)
constexpr size_t kMostChildren = 128;  // MAX_SUBS; 640 from 2.30
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
  if (c < ' ' || c == 0x7f) return "a byte that is no character";
  return c == ' ' ? "a blank" : std::string("'") + c + "'";
}

constexpr char kUnclosed[] = "close it";
constexpr char kShorter[] = "shorten it";

class NcclParser {
 public:
  explicit NcclParser(std::string_view text) : text_(text) {}

  std::vector<NcclRemark> run() {
    while (read_next()) {
    }
    return std::move(remarks_);
  }

 private:
  enum class Type { kEnd, kOpen, kClose, kSingle };
  struct Attribute {
    std::string key, value;
    bool has_value = false;
  };
  struct Element {
    Type type = Type::kEnd;
    std::string name;
    std::vector<Attribute> attributes;
    size_t at = 0;  // of its '<'
    bool is_known = false;
    size_t children = 0;
  };

  bool refuse(size_t at, std::string text, std::string fix) {
    remark(true, at, std::move(text), std::move(fix));
    return false;
  }

  void remark(bool refused, size_t at, std::string text, std::string fix) {
    const auto end = text_.begin() + static_cast<ptrdiff_t>(std::min(at, text_.size()));
    const auto line = static_cast<int>(1 + std::count(text_.begin(), end, '\n'));
    remarks_.push_back({refused, line, std::move(text), std::move(fix)});
  }

  bool get(char* c) {
    if (at_ == text_.size()) return refuse(at_, "the file ends within an element", kUnclosed);
    *c = text_[at_++];
    return true;
  }

  // Reads a name or, where `attribute` is given, also the value behind it; *last is the character
  // behind that.
  bool read_token(Attribute* attribute, std::string* name, char* last) {
    const size_t from = at_;
    while (get(last)) {
      if (*last == '=') {
        if (attribute == nullptr) {
          return refuse(from, "'=' within the name of an element or the first word of a comment",
                        "put one blank in front of the attribute or behind <!--");
        }
        return read_value(&attribute->value, last) && (attribute->has_value = true);
      }
      if (name->size() > kMostText) {
        return refuse(from, "a name of more than 253 characters", kShorter);
      }
      if (std::strchr(" >/\n\r", *last) != nullptr && *last != '\0') return true;
      *name += *last;
    }
    return false;
  }

  // NCCL before 2.27 reads to the next double quote, whatever the first was, and past the end of
  // its buffer where the value is too long.
  bool read_value(std::string* value, char* last) {
    const size_t from = at_;
    char quote = 0;
    if (!get(&quote)) return false;
    if (quote != '"' && quote != '\'') {
      return refuse(from, named(quote) + " behind '=', where NCCL expects a quote",
                    "write NAME=\"VALUE\", without blanks around '='");
    }
    for (char c = 0; get(&c);) {
      if (c == quote) return check_quote(from, quote) && get(last);
      if (value->size() >= kMostText) {
        return refuse(from, "a value of more than 253 characters", kShorter);
      }
      *value += c;
    }
    return false;
  }

  bool check_quote(size_t at, char quote) {
    return quote == '"' || refuse(at,
                                  "a value in single quotes, which NCCL before 2.27 reads on "
                                  "to the next double quote",
                                  "use double quotes");
  }

  // `start` is what was read behind "<!--", and `next` the character behind that.
  bool skip_comment(size_t from, const std::string& start, char next) {
    std::string end = "..." + start + next;
    end.erase(0, end.size() - 3);
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
        return refuse(
            element->at, named(c) + ", where NCCL expects the next element",
            c == '\t' ? "use blanks instead of tabs" : "remove all text between elements");
      }
      if (!read_token(nullptr, &element->name, &c)) return false;
      if (element->name.compare(0, 3, "!--") != 0) return read_rest(element, c);
      if (!skip_comment(element->at, element->name.substr(3), c)) return false;
    }
  }

  bool read_rest(Element* element, char c) {
    if (element->name.empty() && c == '/') {
      element->type = Type::kClose;
      if (!read_token(nullptr, &element->name, &c)) return false;
    } else {
      element->type = Type::kOpen;
      if (!read_attributes(element, &c)) return false;
      std::string ignored;
      if (c == '/') {
        element->type = Type::kSingle;
        if (!read_token(nullptr, &ignored, &c)) return false;
      }
    }
    return c == '>' || refuse(at_ - 1, fix_and_text(element->name, c).first,
                              fix_and_text(element->name, c).second);
  }

  static std::pair<std::string, std::string> fix_and_text(const std::string& name, char c) {
    const bool is_prologue = name.starts_with("?") || name.starts_with("!");
    return {named(c) + " within <" + name + ">, where NCCL expects '>' or one blank",
            is_prologue ? "remove this line" : "write the element on one line, with single blanks"};
  }

  bool read_attributes(Element* element, char* c) {
    while (*c == ' ') {
      Attribute one;
      if (!read_token(&one, &one.key, c)) return false;
      if (!one.key.empty() && !one.has_value) {
        remark(false, at_ - 1, "NCCL takes " + one.key + " of <" + element->name + "> for empty",
               "write " + one.key + "=\"VALUE\", without blanks around '='");
      }
      if (element->attributes.size() < kMostAttributes) {
        element->attributes.push_back(std::move(one));
      } else if (!one.key.empty()) {
        remark(false, at_ - 1,
               "NCCL ignores " + one.key + " of <" + element->name +
                   ">: it reads 16 attributes, and each second blank is one",
               "remove blanks or attributes");
      }
    }
    return true;
  }

  // Returns false at the end of the file, and where NCCL refuses it.
  bool read_next() {
    if (nodes_ > kMostNodes) {
      return refuse(at_, "more than 255 elements that NCCL knows (before 2.21: 1023)",
                    "remove devices that the job does not use, or make one file for each host");
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
    const bool in_known = parent == nullptr || parent->is_known;
    element.is_known = in_known && is_place(parent == nullptr ? "" : parent->name, element.name);
    if (element.is_known) {
      if (parent != nullptr && ++parent->children > kMostChildren) {
        return refuse(
            element.at,
            "more than 128 elements in one <" + parent->name + ">, which NCCL before 2.30 refuses",
            "remove devices that the job does not use");
      }
      ++nodes_;
      if (element.name == "system" && !check_version(element)) return false;
    } else if (const std::string parents = parents_of(element.name); !parents.empty()) {
      remark(false, element.at, "NCCL ignores a <" + element.name + "> outside " + parents,
             "move it into one");
    }
    if (element.type != Type::kSingle) open_.push_back(std::move(element));
    return true;
  }

  bool check_version(const Element& system) {
    const auto version = std::find_if(system.attributes.begin(), system.attributes.end(),
                                      [](const Attribute& one) { return one.key == "version"; });
    if (version != system.attributes.end() &&
        std::strtol(version->value.c_str(), nullptr, 0) == 1) {
      return true;
    }
    return refuse(system.at, "<system> is not of version 1", "write <system version=\"1\">");
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t nodes_ = 0;
  std::vector<Element> open_;
  std::vector<NcclRemark> remarks_;
};

}  // namespace

std::vector<NcclRemark> nccl_remarks(std::string_view text) { return NcclParser(text).run(); }

Findings nccl_findings(const std::string& file, const std::vector<NcclRemark>& remarks) {
  Findings findings;
  for (auto one = remarks.begin(); one != remarks.end(); ++one) {
    auto is_same = [&](const NcclRemark& other) { return other.text == one->text; };
    if (std::any_of(remarks.begin(), one, is_same)) continue;
    const auto more = std::count_if(one, remarks.end(), is_same) - 1;
    const std::string place = file + ":" + std::to_string(one->line) + ": ";
    const std::string text =
        one->text + (more > 0 ? " (and in " + std::to_string(more) + " other places)" : "");
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
