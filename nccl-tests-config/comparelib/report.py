"""Formats the results of several transports side by side, as text and as Markdown."""

from comparelib import perf_table, rounds

_COLUMNS = ("time us", "algbw", "busbw", "#wrong")


def size_text(size):
    """Bytes as nccl-tests' options take them: 8, 128K, 1M, 1G."""
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def _half(row, in_place):
    if row is None:
        return None
    return row.in_place if in_place else row.out_of_place


def _cells(measure):
    if measure is None:
        return ["-"] * len(_COLUMNS)
    wrong = "N/A" if measure.wrong is None else f"{measure.wrong:g}"
    return [f"{measure.time_us:.2f}", f"{measure.algbw:.2f}", f"{measure.busbw:.2f}", wrong]


def _times(tables, size, in_place):
    """The size's time in each repeat, or None where a repeat did not measure it."""
    halves = [_half(next((row for row in table.rows if row.size == size), None), in_place)
              for table in tables]
    return [half and half.time_us for half in halves]


def _ratio(tables, base, size, in_place):
    """How many times as fast as the base. By time, because bandwidths of small sizes print as 0."""
    found = rounds.ratio(_times(base, size, in_place), _times(tables, size, in_place))
    return "-" if found is None else f"{found.median:.2f}"


def build(results, base, in_place=False):
    """(group headings with their widths, column headings, lines) of one program's table.

    `results` maps a transport to its PerfTables, one a repeat. Cells are medians over the repeats; a
    ratio compares with the transport `base`.
    """
    others = [name for name in results if name != base] if base in results else []
    groups = [("", 1)] + [(name, len(_COLUMNS)) for name in results]
    headings = ["size"] + list(_COLUMNS) * len(results)
    if others:
        groups.append(("speed ratio", len(others)))
        headings += [f"{name}/{base}" for name in others]
    by_size = {name: {row.size: row for row in perf_table.median_rows(tables)}
               for name, tables in results.items()}
    lines = []
    for size in sorted({size for rows in by_size.values() for size in rows}):
        halves = {name: _half(rows.get(size), in_place) for name, rows in by_size.items()}
        line = [size_text(size)]
        for name in results:
            line += _cells(halves[name])
        line += [_ratio(results[name], results[base], size, in_place) for name in others]
        lines.append(line)
    return groups, headings, lines


def as_text(table):
    groups, headings, lines = table
    widths = [max(len(row[i]) for row in [headings, *lines]) for i in range(len(headings))]
    top, start = [], 0
    for name, columns in groups:
        width = sum(widths[start:start + columns]) + 2 * (columns - 1)
        top.append(name.center(width))
        start += columns
    rows = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths))
            for row in [headings, *lines]]
    return "\n".join(["  ".join(top).rstrip(), *rows])


def as_markdown(table):
    groups, headings, lines = table
    named, start = [], 0
    for name, columns in groups:
        prefix = f"{name} " if name and name != "speed ratio" else ""
        named += [prefix + heading for heading in headings[start:start + columns]]
        start += columns
    rows = [named, ["---:"] * len(named), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
