"""The parts of a plot in SVG: texts, lines, and each side's colour and symbol.

Colours are those of Okabe and Ito, which colour-blind people can distinguish
(https://jfly.uni-koeln.de/color/); each side also has a symbol of its own.
"""

from xml.sax.saxutils import escape

_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
_CONTROL_COLOUR = "#777777"
_SYMBOLS = ("circle", "square", "triangle", "diamond", "cross", "bar")


def text(x, y, words, size=13, anchor="middle", extra=""):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#222222"{extra}>'
        f"{escape(words)}</text>")


def line(x1, y1, x2, y2, colour, width=1.0, extra=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"{extra}/>')


def symbol(kind, x, y, colour, title=""):
    r = 4.0
    shapes = {
        "circle":
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"',
        "square":
            f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}"',
        "triangle":
            f'<path d="M{x:.1f} {y - r - 1:.1f}l{r + 1} {2 * r}h{-2 * r - 2}z"',
        "diamond":
            f'<path d="M{x:.1f} {y - r - 1.5:.1f}l{r + 1} {r + 1.5}l{-r - 1} {r + 1.5}l{-r - 1} {-r - 1.5}z"',
        "cross":
            f'<path d="M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}" stroke="{colour}" '
            'stroke-width="2"',
        "bar":
            f'<rect x="{x - r:.1f}" y="{y - r / 2:.1f}" width="{2 * r}" height="{r}"',
    }
    return f'{shapes[kind]} fill="{colour}"><title>{escape(title)}</title></{shapes[kind][1:].split()[0]}>'


class Style:
    def __init__(self, session):
        self._control = session.control
        self.sides = session.sides
        plain = [side for side in session.sides if side != session.control]
        self._index = {side: index for index, side in enumerate(plain)}

    def colour(self, side):
        return _CONTROL_COLOUR if side == self._control else _COLOURS[self._index[side] %
                                                                      len(_COLOURS)]

    def symbol(self, side):
        return "cross" if side == self._control else _SYMBOLS[self._index[side] % len(_SYMBOLS)]

    def dash(self, side):
        return ' stroke-dasharray="3 3"' if side == self._control else ""
