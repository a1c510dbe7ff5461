#include "tools/sources/nvidia_smi_matrix.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "topology/cpu_mask.h"

namespace gdr::topology {
namespace {

constexpr size_t kMaxDevices = 128;  // of one kind, and so many addresses are made up

constexpr std::array<std::pair<std::string_view, SmiPath>, 6> kPaths = {{
    {"PIX", SmiPath::kPix},
    {"PXB", SmiPath::kPxb},
    {"PHB", SmiPath::kPhb},
    {"NODE", SmiPath::kNode},
    {"SYS", SmiPath::kSys},
    {"SOC", SmiPath::kSys},  // the word of older drivers
}};

using Words = std::vector<std::string_view>;

// Returns the decimal number that the whole text is; nothing for other text.
std::optional<int> number_in(std::string_view text) {
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return whole ? std::optional<int>(number) : std::nullopt;
}

std::optional<int> number_after(std::string_view prefix, std::string_view text) {
  return text.starts_with(prefix) ? number_in(text.substr(prefix.size())) : std::nullopt;
}

// Returns the text without escape sequences such as "\x1b[4m", which underline the first line.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      plain += text[i] == '\0' ? ' ' : text[i];
      continue;
    }
    while (i + 1 < text.size() && text[i] != '\n' &&
           std::isalpha(static_cast<unsigned char>(text[i])) == 0) {
      ++i;
    }
  }
  return plain;
}

Words words_of(std::string_view line) {
  Words words;
  for (size_t at = line.find_first_not_of(" \t\r>|"); at != std::string_view::npos;) {
    size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(" \t\r", end);
  }
  return words;
}

// Takes the name of a node off the front, which parallel shells put before each line
// ("node17: GPU0 ..."), and returns it; "" where there is none.
std::string_view take_node(Words* words) {
  if (words->empty() || !(*words)[0].ends_with(":")) return "";
  const std::string_view name = (*words)[0].substr(0, (*words)[0].size() - 1);
  if (number_after("NIC", name)) return "";  // of the legend
  words->erase(words->begin());
  return name;
}

std::optional<SmiCell> cell_of(std::string_view word) {
  for (const auto& [name, path] : kPaths) {
    if (word == name) return SmiCell{path, 0};
  }
  if (auto links = number_after("NV", word); links && *links > 0) {
    return SmiCell{SmiPath::kUnknown, *links};
  }
  return word == "X" ? std::optional<SmiCell>(SmiCell{}) : std::nullopt;
}

// The line that names the columns begins with a GPU and has no cells.
bool is_header(const Words& words) {
  return !words.empty() && number_after("GPU", words[0]) &&
         std::none_of(words.begin(), words.end(), [](auto word) { return cell_of(word); }) &&
         (words.size() == 1 || number_after("GPU", words[1]) || words[1] == "CPU" ||
          std::isdigit(static_cast<unsigned char>(words[1].back())) != 0);
}

// Reads the lines one by one.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(without_escapes(text)) {}

  Result<SmiMatrix> parse();

 private:
  Status read_header(const Words& words);
  Status read_row(const Words& words);
  Status read_cell(size_t row, size_t column, std::string_view word);
  void read_affinity(SmiDevice* device, const Words& words);
  Status read_legend(const Words& words);
  Status check_complete() const;
  std::optional<size_t> index_of(std::string_view column) const;
  tl::unexpected<Error> error(const std::string& what) const {
    return fail(Code::kInvalidArgument, "line " + std::to_string(line_) + ": " + what);
  }

  const std::string text_;
  int line_ = 0;
  std::string_view node_;      // of the header; lines of other nodes do not count
  bool has_cpus_ = false;      // whether there is a column "CPU Affinity"
  bool has_numa_ = false;      // whether there is a column "NUMA Affinity"
  bool has_gpu_numa_ = false;  // whether there is a column "GPU NUMA ID"
  SmiMatrix matrix_;
  std::vector<std::vector<bool>> known_;  // the cells that were read
};

std::optional<size_t> Parser::index_of(std::string_view column) const {
  for (size_t i = 0; i < matrix_.devices.size(); ++i) {
    if (matrix_.devices[i].column == column) return i;
  }
  return std::nullopt;
}

Status Parser::read_header(const Words& words) {
  size_t gpus = 0;
  size_t i = 0;
  for (; i < words.size() && words[i] != "CPU" && words[i] != "NUMA" && words[i] != "GPU"; ++i) {
    if (index_of(words[i])) return error("there are two columns " + std::string(words[i]));
    SmiDevice device;
    device.column = device.name = words[i];
    std::optional<int> number = number_after("GPU", words[i]);
    device.gpu = number.has_value();
    device.number = number.value_or(0);
    if (device.gpu) ++gpus;
    matrix_.devices.push_back(std::move(device));
  }
  for (; i + 1 < words.size(); ++i) {
    has_cpus_ |= words[i] == "CPU" && words[i + 1] == "Affinity";
    has_numa_ |= words[i] == "NUMA" && words[i + 1] == "Affinity";
    has_gpu_numa_ |= words[i] == "NUMA" && words[i + 1] == "ID";
  }
  size_t count = matrix_.devices.size();
  if (gpus > kMaxDevices || count - gpus > kMaxDevices) return error("there are too many columns");
  matrix_.cells.assign(count, std::vector<SmiCell>(count));
  known_.assign(count, std::vector<bool>(count, false));
  return {};
}

Status Parser::read_cell(size_t row, size_t column, std::string_view word) {
  const std::string pair = matrix_.devices[row].column + " and " + matrix_.devices[column].column;
  std::optional<SmiCell> cell = cell_of(word);
  if (!cell || (word == "X") != (row == column)) {
    return error("\"" + std::string(word) + "\" cannot be what connects " + pair);
  }
  SmiCell& known = matrix_.cells[row][column];
  if (known_[row][column] && (known.path != cell->path || known.nvlinks != cell->nvlinks)) {
    return error(pair + " are connected by " + std::string(word) +
                 ", but another line says otherwise");
  }
  known = matrix_.cells[column][row] = *cell;
  known_[row][column] = known_[column][row] = true;
  return {};
}

// `words` are those behind the cells. A cell with nothing in it is not seen, so the affinity counts
// only where all columns before it have something.
void Parser::read_affinity(SmiDevice* device, const Words& words) {
  const bool has_node = !has_numa_ || (words.size() >= 2 && number_in(words[1]));
  if (has_cpus_ && has_node && !words.empty()) {
    device->cpus = mask_of_list(words[0]).value_or("");
  }
  if (has_numa_ && words.size() >= 2) device->numa = number_in(words[1]).value_or(-1);
  if (has_gpu_numa_ && words.size() >= 3) device->coherent = number_in(words[2]).has_value();
}

Status Parser::read_row(const Words& words) {
  std::optional<size_t> row = words.empty() ? std::nullopt : index_of(words[0]);
  if (!row || words.size() < 2 || !cell_of(words[1])) return {};
  size_t columns = matrix_.devices.size();
  if (words.size() < columns + 1) {
    return error("row " + std::string(words[0]) + " has " + std::to_string(words.size() - 1) +
                 " of " + std::to_string(columns) + " cells: paste the whole matrix");
  }
  for (size_t column = 0; column < columns; ++column) {
    if (Status status = read_cell(*row, column, words[column + 1]); !status) return status;
  }
  auto rest = words.begin() + static_cast<ptrdiff_t>(columns) + 1;
  if (matrix_.devices[*row].gpu) read_affinity(&matrix_.devices[*row], Words(rest, words.end()));
  return {};
}

// Reads "NIC0: mlx5_0".
Status Parser::read_legend(const Words& words) {
  if (words.size() != 2 || !words[0].ends_with(":")) return {};
  const std::string_view column = words[0].substr(0, words[0].size() - 1);
  auto device = index_of(column);
  if (device && !matrix_.devices[*device].gpu) matrix_.devices[*device].name = words[1];
  if (device || !number_after("NIC", column)) return {};
  return error(
      "the legend names " + std::string(column) +
      ", which the matrix has no column for: paste it without line breaks of the terminal");
}

Status Parser::check_complete() const {
  for (size_t i = 0; i < known_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (known_[i][j]) continue;
      return fail(Code::kInvalidArgument, "no row says what connects " + matrix_.devices[j].column +
                                              " and " + matrix_.devices[i].column +
                                              ": paste the whole matrix");
    }
  }
  return {};
}

Result<SmiMatrix> Parser::parse() {
  for (size_t at = 0; at < text_.size();) {
    size_t end = std::min(text_.find('\n', at), text_.size());
    Words words = words_of(std::string_view(text_).substr(at, end - at));
    at = end + 1;
    ++line_;
    const std::string_view node = take_node(&words);
    if (matrix_.devices.empty()) {
      if (!is_header(words)) continue;
      node_ = node;
      if (Status status = read_header(words); !status) return forward_error(status);
      continue;
    }
    if (node != node_) continue;
    if (Status status = read_row(words); !status) return forward_error(status);
    if (Status status = read_legend(words); !status) return forward_error(status);
  }
  if (matrix_.devices.empty()) {
    return fail(Code::kInvalidArgument, "no line names the columns GPU0, GPU1 and so on");
  }
  if (Status status = check_complete(); !status) return forward_error(status);
  return std::move(matrix_);
}

}  // namespace

std::string to_string(SmiPath path) {
  for (const auto& [name, value] : kPaths) {
    if (value == path) return std::string(name);
  }
  return "NVLink";
}

bool has_smi_matrix(std::string_view text) {
  const std::string plain = without_escapes(text);
  for (size_t at = 0; at < plain.size();) {
    size_t end = std::min(plain.find('\n', at), plain.size());
    Words words = words_of(std::string_view(plain).substr(at, end - at));
    take_node(&words);
    if (is_header(words)) return true;
    at = end + 1;
  }
  return false;
}

Result<SmiMatrix> parse_smi_matrix(std::string_view text) { return Parser(text).parse(); }

}  // namespace gdr::topology
