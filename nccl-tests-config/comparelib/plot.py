"""Draws one program's comparison as SVG: bus bandwidth, time and speed ratio over the size.

The SVG is written here and not by a plotting program, so that every machine that can compare can also
draw, compute nodes included, and so that the page has the picture in it. Colours are those of Okabe and
Ito, which colour-blind people can distinguish (https://jfly.uni-koeln.de/color/); each side also has a
symbol of its own. Bars are the spread over the rounds.
"""

from xml.sax.saxutils import escape

from comparelib import axes, report

WIDTH, HEIGHT = 960, 700
_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
_CONTROL_COLOUR = "#777777"
_SYMBOLS = ("circle", "square", "triangle", "diamond", "cross", "bar")


def _text(x, y, text, size=13, anchor="middle", extra=""):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#222222"{extra}>'
        f"{escape(text)}</text>")


def _line(x1, y1, x2, y2, colour, width=1.0, extra=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"{extra}/>')


def _symbol(kind, x, y, colour, title=""):
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


class _Style:
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


class _Panel:
    """One diagram in the rectangle left, top, right, bottom. `curves` maps a side to (size, Summary)."""

    def __init__(self, box, title, curves, make_axis, make_ticks):
        self.left, self.top, self.right, self.bottom = box
        self.title, self.curves, self.parts = title, curves, []
        values = [
            value for points in curves.values() for _, found in points
            for value in (found.low, found.high)
        ]
        sizes = [size for points in curves.values() for size, _ in points]
        self.x = axes.size_axis(sizes, self.left, self.right)
        self.y = make_axis(values, self.bottom, self.top)
        self.ticks = make_ticks(self.y)

    def frame(self):
        self.parts.append(
            _text((self.left + self.right) / 2,
                  self.top - 10,
                  self.title,
                  14,
                  extra=' font-weight="bold"'))
        for value, label in self.ticks:
            y = self.y.at(value)
            self.parts += [
                _line(self.left, y, self.right, y, "#dddddd"),
                _text(self.left - 6, y + 4, label, 12, "end")
            ]
        for value, label in axes.size_ticks(self.x):
            x = self.x.at(value)
            self.parts += [
                _line(x, self.top, x, self.bottom, "#eeeeee"),
                _text(x, self.bottom + 17, label, 12)
            ]
        self.parts.append(f'<rect x="{self.left}" y="{self.top}" width="{self.right - self.left}" '
                          f'height="{self.bottom - self.top}" fill="none" stroke="#888888"/>')
        self.parts.append(
            _text((self.left + self.right) / 2, self.bottom + 35, "message size, bytes", 12))

    def band(self, points):
        """The grey area in which the control lies: what is inside is noise."""
        for (size, found), (after, following) in zip(points, points[1:]):
            corners = [(size, found.high), (after, following.high), (after, following.low),
                       (size, found.low)]
            shape = " ".join(f"{self.x.at(x):.1f},{self.y.at(y):.1f}" for x, y in corners)
            self.parts.append(f'<polygon points="{shape}" fill="#cccccc" fill-opacity="0.6"/>')

    def level(self, value):
        self.parts.append(
            _line(self.left, self.y.at(value), self.right, self.y.at(value), "#444444", 1.2))

    def draw(self, style, unit):
        for side, points in self.curves.items():
            colour, place = style.colour(side), [(self.x.at(size), found) for size, found in points]
            line = " ".join(f"{x:.1f},{self.y.at(found.median):.1f}" for x, found in place)
            self.parts.append(
                f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"'
                f"{style.dash(side)}/>")
            for (x, found), (size, _) in zip(place, points):
                low, high = self.y.at(found.low), self.y.at(found.high)
                if abs(low - high) > 1:
                    self.parts += [
                        _line(x, low, x, high, colour, 1.2),
                        _line(x - 3, low, x + 3, low, colour, 1.2),
                        _line(x - 3, high, x + 3, high, colour, 1.2)
                    ]
                title = (f"{side}, {report.size_text(size)}: {found.median:.4g} {unit}"
                         f" ({found.low:.4g}-{found.high:.4g})")
                self.parts.append(
                    _symbol(style.symbol(side), x, self.y.at(found.median), colour, title))


def _legend(style, y):
    parts, x = [], 70.0
    for side in style.sides:
        colour = style.colour(side)
        parts += [
            _line(x, y, x + 26, y, colour, 2, style.dash(side)),
            _symbol(style.symbol(side), x + 13, y, colour, side),
            _text(x + 32, y + 4.5, side, 13, "start")
        ]
        x += 56 + 7.6 * len(side)
    return parts


def _curves(points, sides, take):
    """Side -> [(size, Summary)], of positive values only: zero has no place on a logarithmic axis."""
    found = {
        side: [(point.size, summary)
               for point in points
               if point.size > 0 and (summary := take(point, side)) is not None and summary.low > 0
              ] for side in sides
    }
    return {side: curve for side, curve in found.items() if curve}


def svg(session, points, title):
    """The picture as a complete SVG document, or None where there is nothing to draw."""
    style = _Style(session)
    plain = [side for side in session.sides if side != session.control]
    bandwidth = _curves(points, plain, lambda point, side: point.series[side].bandwidths())
    time = _curves(points, plain, lambda point, side: point.series[side].times())
    speed = _curves(points, session.others, lambda point, side: point.speed[side])
    if not time:
        return None
    panels = [(_Panel((70, 78, 460, 350), "time, us", time, axes.value_axis,
                      axes.value_ticks), "us")]
    if bandwidth:
        panels.append((_Panel((550, 78, 940, 350), "bus bandwidth, GB/s", bandwidth,
                              axes.value_axis, axes.value_ticks), "GB/s"))
    if speed:
        panel = _Panel((70, 440, 940, 650), f"speed, {session.base} = 1 (above: faster)", speed,
                       axes.ratio_axis, axes.ratio_ticks)
        panels.append((panel, f"times the speed of {session.base}"))
    parts = [_text(WIDTH / 2, 22, title, 15, extra=' font-weight="bold"'), *_legend(style, 42)]
    for panel, unit in panels:
        panel.frame()
        if panel.y.logarithmic is False:
            panel.band(panel.curves.get(session.control, []))
            panel.level(1)
        panel.draw(style, unit)
        parts += panel.parts
    height = HEIGHT if speed else 400
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="sans-serif">\n<title>{escape(title)}</title>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n')
