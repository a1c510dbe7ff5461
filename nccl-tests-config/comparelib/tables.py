"""Prints tables: in Markdown, with columns of one width each for the terminal."""


def table(rows, left=()):
    """The rows of texts, the headings first; columns of the headings `left` begin at their left edge."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    is_left = [heading in left for heading in rows[0]]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) if at_left else cell.rjust(width)
                 for cell, width, at_left in zip(row, widths, is_left)]
        lines.append(f"| {' | '.join(cells)} |")
    rule = "|".join(["", *("-" * (width + 1) + ("-" if at_left else ":")
                           for width, at_left in zip(widths, is_left)), ""])
    return "\n".join([lines[0], rule, *lines[1:]])
