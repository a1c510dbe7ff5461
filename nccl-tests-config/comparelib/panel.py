"""One diagram of a plot: its axes, and a curve with the spread of each side."""

from comparelib import axes, marks, report


class Panel:
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
            marks.text((self.left + self.right) / 2,
                  self.top - 10,
                  self.title,
                  14,
                  extra=' font-weight="bold"'))
        for value, label in self.ticks:
            y = self.y.at(value)
            self.parts += [
                marks.line(self.left, y, self.right, y, "#dddddd"),
                marks.text(self.left - 6, y + 4, label, 12, "end")
            ]
        for value, label in axes.size_ticks(self.x):
            x = self.x.at(value)
            self.parts += [
                marks.line(x, self.top, x, self.bottom, "#eeeeee"),
                marks.text(x, self.bottom + 17, label, 12)
            ]
        self.parts.append(f'<rect x="{self.left}" y="{self.top}" width="{self.right - self.left}" '
                          f'height="{self.bottom - self.top}" fill="none" stroke="#888888"/>')
        self.parts.append(
            marks.text((self.left + self.right) / 2, self.bottom + 35, "message size, bytes", 12))

    def band(self, points):
        """The grey area in which the control lies: what is inside is noise."""
        for (size, found), (after, following) in zip(points, points[1:]):
            corners = [(size, found.high), (after, following.high), (after, following.low),
                       (size, found.low)]
            shape = " ".join(f"{self.x.at(x):.1f},{self.y.at(y):.1f}" for x, y in corners)
            self.parts.append(f'<polygon points="{shape}" fill="#cccccc" fill-opacity="0.6"/>')

    def level(self, value):
        self.parts.append(
            marks.line(self.left, self.y.at(value), self.right, self.y.at(value), "#444444", 1.2))

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
                        marks.line(x, low, x, high, colour, 1.2),
                        marks.line(x - 3, low, x + 3, low, colour, 1.2),
                        marks.line(x - 3, high, x + 3, high, colour, 1.2)
                    ]
                title = (f"{side}, {report.size_text(size)}: {found.median:.4g} {unit}"
                         f" ({found.low:.4g}-{found.high:.4g})")
                self.parts.append(
                    marks.symbol(style.symbol(side), x, self.y.at(found.median), colour, title))
