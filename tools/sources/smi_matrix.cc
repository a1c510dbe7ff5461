#include "tools/sources/smi_matrix.h"

#include <cctype>
#include <charconv>
#include <cstring>
#include <iterator>

#include "topology/cpu_mask.h"

namespace gdr::topology::smi {

std::optional<int> number_after(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return whole ? std::optional<int>(number) : std::nullopt;
}

namespace {

constexpr char kPasteWhole[] =
    ". Fix: paste the whole matrix as nvidia-smi prints it, without what a terminal, a launcher or "
    "a "
    "logger adds";

using Words = std::vector<std::string>;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

std::optional<Cell> cell_of(std::string_view word) {
  for (const auto& [name, level] : kLevels) {
    if (word == name) return Cell{level, 0};
  }
  if (auto links = number_after("NV", word); links && *links > 0) return Cell{{}, *links};
  return word == "X" ? std::optional<Cell>(Cell{}) : std::nullopt;
}

// Returns the text as ASCII, as far as it is: without NUL bytes, which UTF-16 has in each character
// of ASCII, and without escape sequences such as "\x1b[4m", which underlines the first line.
std::string plain(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '\0');
  for (size_t escape = 0; (escape = plain.find('\x1b', escape)) != std::string::npos;) {
    const size_t end = plain.find_first_of("ABCDEFGHJKmsu\n", escape);
    plain.erase(escape, end == std::string::npos ? end : end - escape + (plain[end] != '\n'));
  }
  return plain;
}

// Words end at blanks and at what frames or quotes them. That is whatever is not ASCII, too: lines
// of a box, no-break spaces, byte order marks.
Words words_of(std::string_view line) {
  Words words(1);
  for (const char c : line) {
    const bool is_word = c > ' ' && c < '\x7f' && !std::strchr("|>*`", c);
    if (is_word) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// Returns the words of the line that names the columns; nothing for other lines. It begins with a
// GPU, in a table perhaps with a title of the names, and has no cells.
std::optional<Words> header_of(Words words) {
  if (words.size() > 1 && number_after("GPU", words[1]) && !number_after("GPU", words[0])) {
    words.erase(words.begin());
  }
  const bool is_header =
      !words.empty() && number_after("GPU", words[0]) &&
      std::none_of(words.begin(), words.end(), [](const auto& word) { return cell_of(word); }) &&
      (words.size() == 1 || number_after("GPU", words[1]) || words[1] == "CPU" ||
       (is_letter(words[1][0]) && is_digit(words[1].back())));
  return is_header ? std::optional(std::move(words)) : std::nullopt;
}

// Returns Matrix::source_fault for "76 NICs found in the topology, only displaying 56 in the
// matrix.", which stands above the matrix.
std::string partial_of(const Words& words) {
  const auto found = std::find(words.begin(), words.end(), "found");
  const auto shown = std::find(found, words.end(), "displaying");
  if (found - words.begin() < 2 || words.end() - shown < 2) return "";
  return "nvidia-smi shows " + shown[1] + " of " + found[-2] + " " + found[-1];
}

Lines::Rows rows_of(const Words& columns, const Words& row) {
  constexpr std::string_view kPeerAccess[] = {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"};
  const auto is_one_of = [](const auto& all, std::string_view word) {
    return std::find(std::begin(all), std::end(all), word) != std::end(all);
  };
  if (row.size() < 2 || !is_one_of(columns, row[0])) return Lines::Rows::kNone;
  const bool other = !cell_of(row[1]) || (row.size() > 2 && is_one_of(kPeerAccess, row[2]));
  return other ? Lines::Rows::kOther : Lines::Rows::kOfTopology;
}

class Parser {
 public:
  Result<Matrix> parse(const Lines& lines) {
    for (const auto& [number, words] : lines.lines) {
      line_ = number;
      Status status = matrix_.devices.empty() ? read_header(words) : read_line(words);
      if (!status) return forward_error(status);
    }
    if (Status complete = check_complete(); !complete) return forward_error(complete);
    matrix_.source_fault = lines.source_fault;
    if (const std::string nic = nic_without_name(); !nic.empty()) {
      matrix_.source_fault = "the legend does not name " + nic;
    }
    if (!has_cpus_) matrix_.source_fault = "the text ends before the column CPU Affinity";
    return std::move(matrix_);
  }

 private:
  tl::unexpected<Error> error(const std::string& what) const {
    return fail(Code::kInvalidArgument, "line " + std::to_string(line_) + ": " + what);
  }
  std::optional<size_t> index_of(std::string_view column) const {
    for (size_t i = 0; i < matrix_.devices.size(); ++i) {
      if (matrix_.devices[i].column == column) return i;
    }
    return std::nullopt;
  }

  Status read_header(const Words& words) {
    size_t i = 0, gpus = 0;
    for (; i < words.size() && words[i] != "CPU" && words[i] != "NUMA" && words[i] != "GPU"; ++i) {
      if (index_of(words[i])) return error("there are two columns " + words[i] + kPasteWhole);
      const std::string& column = words[i];
      matrix_.devices.push_back({column, column, number_after("GPU", column), -1, "", false});
      gpus += matrix_.devices.back().number.has_value() ? 1 : 0;
    }
    for (; i + 1 < words.size(); ++i) {
      has_cpus_ |= words[i] == "CPU" && words[i + 1] == "Affinity";
      has_numa_ |= words[i] == "NUMA" && words[i + 1] == "Affinity";
      has_gpu_numa_ |= words[i] == "NUMA" && words[i + 1] == "ID";
    }
    if (std::max(gpus, matrix_.devices.size() - gpus) > kMaxDevices) {
      return error("there are too many columns");
    }
    return {};
  }

  Status read_cell(size_t row, size_t column, std::string_view word) {
    const std::string pair = matrix_.devices[row].column + " and " + matrix_.devices[column].column;
    const std::optional<Cell> cell = cell_of(word);
    if (!cell || (word == "X") != (row == column)) {
      return error("\"" + std::string(word) + "\" cannot be what connects " + pair);
    }
    if (row == column) return {};
    const auto [known, is_new] = matrix_.cells.emplace(std::minmax(row, column), *cell);
    matrix_.nvlinks_known |= cell->nvlinks > 0;
    if (is_new || known->second == *cell) return {};
    return error(pair + " are connected by " + std::string(word) +
                 ", but another line says otherwise");
  }

  Status read_line(const Words& words) {
    if (words.empty()) return {};
    const std::optional<size_t> row = index_of(words[0]);
    if (row && words.size() > 1 && cell_of(words[1])) return read_row(*row, words);
    // Only `topo -mp`, which does not look at NVLinks, has a legend without them.
    matrix_.nvlinks_known |= words[0] == "NV#";
    if (words.size() == 2 && words[0].ends_with(':')) return read_legend(words);
    if (!has_row_ && !has_cpus_ && is_letter(words[0][0])) {
      return error("the line of the columns is broken" + std::string(kPasteWhole));
    }
    const auto cells = std::count_if(words.begin() + 1, words.end(), cell_of);
    if (cells == 0 || !is_digit(words[0].back()) || is_digit(words[0][0])) return {};
    return error("the matrix has a row but no column " + words[0] + kPasteWhole);
  }

  // A cell with nothing in it is not seen, so what follows the cells counts only where all columns
  // have something.
  Status read_row(size_t row, const Words& words) {
    const size_t columns = matrix_.devices.size(), numa = columns + 2;
    if (words.size() <= columns) {
      return error("row " + words[0] + " has " + std::to_string(words.size() - 1) + " of " +
                   std::to_string(columns) + " cells" + kPasteWhole);
    }
    for (size_t column = 0; column < columns; ++column) {
      if (Status status = read_cell(row, column, words[column + 1]); !status) return status;
    }
    has_row_ = true;
    Device& device = matrix_.devices[row];
    const size_t affinities = size_t{has_cpus_} + size_t{has_numa_} + size_t{has_gpu_numa_};
    if (!device.number || words.size() <= columns + affinities) return {};
    if (has_numa_) device.numa = number_after("", words[numa]).value_or(-1);
    const bool one_node = !has_numa_ || device.numa >= 0;
    if (has_cpus_ && one_node) device.cpus = mask_of_list(words[columns + 1]).value_or("");
    device.coherent = has_gpu_numa_ && number_after("", words[numa + 1]);
    return {};
  }

  // Reads "NIC0: mlx5_0".
  Status read_legend(const Words& words) {
    const std::string_view column = std::string_view(words[0]).substr(0, words[0].size() - 1);
    const std::optional<size_t> device = index_of(column);
    if (device && !matrix_.devices[*device].number) {
      matrix_.devices[*device].name = words[1];
      has_legend_ = true;
    }
    if (device || !number_after("NIC", column)) return {};
    return error("the legend names " + std::string(column) +
                 ", which the matrix has no column for" + kPasteWhole);
  }

  // Names the first NIC that the legend leaves out; "" where it has all.
  std::string nic_without_name() const {
    for (const Device& one : matrix_.devices) {
      if (has_legend_ && number_after("NIC", one.name)) return one.column;
    }
    return "";
  }

  Status check_complete() const {
    for (size_t i = 0; i < matrix_.devices.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (matrix_.cells.contains({j, i})) continue;
        return fail(Code::kInvalidArgument, "no row says what connects " +
                                                matrix_.devices[j].column + " and " +
                                                matrix_.devices[i].column + kPasteWhole);
      }
    }
    return {};
  }

  int line_ = 0;
  bool has_row_ = false;
  bool has_legend_ = false;    // whether a line names a NIC
  bool has_cpus_ = false;      // whether there is a column "CPU Affinity"
  bool has_numa_ = false;      // whether there is a column "NUMA Affinity"
  bool has_gpu_numa_ = false;  // whether there is a column "GPU NUMA ID"
  Matrix matrix_;
};

}  // namespace

std::vector<Lines> matrices_in(std::string_view text) {
  std::vector<Lines> all;
  std::string partial;  // of the matrix that follows, or of the last one
  const std::string lines = plain(text);
  int number = 0;
  for (size_t at = 0, end = 0; at < lines.size(); at = end + 1) {
    end = std::min(lines.find('\n', at), lines.size());
    Line line{++number, words_of(std::string_view(lines).substr(at, end - at))};
    if (std::string more = partial_of(line.words); !more.empty()) partial = std::move(more);
    const std::optional<Words> columns = header_of(line.words);
    const std::string title =
        columns && line.words[0] != columns->front() ? line.words[0] : std::string();
    // Before the first row, one without another title is the rest of a broken line of columns.
    if (columns && (all.empty() || all.back().rows != Lines::Rows::kNone ||
                    (!title.empty() && title != all.back().title))) {
      all.push_back({{{number, *columns}}, title, std::exchange(partial, "")});
    } else if (!all.empty()) {
      Lines& current = all.back();
      Words& words = line.words;
      if (!words.empty() && words[0] == current.title) words.erase(words.begin());
      if (current.rows == Lines::Rows::kNone) {
        current.rows = rows_of(current.lines[0].words, line.words);
      }
      current.lines.push_back(std::move(line));
    }
  }
  if (!partial.empty() && !all.empty()) all.back().source_fault = partial;
  std::erase_if(all, [](const Lines& one) { return one.rows == Lines::Rows::kOther; });
  return all;
}

Result<Matrix> parse(const Lines& lines) { return Parser().parse(lines); }

}  // namespace gdr::topology::smi
