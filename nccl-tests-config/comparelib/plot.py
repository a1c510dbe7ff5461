"""Draws one program's comparison as SVG: bus bandwidth, time and speed ratio over the size.

The SVG is written here and not by a plotting program, so that every machine that can compare can also
draw, compute nodes included, and so that the page has the picture in it. Bars are the spread over the
rounds.
"""

from xml.sax.saxutils import escape

from comparelib import axes, marks, panel

WIDTH, HEIGHT = 960, 700
_LEGEND, _ROW = 42, 18  # where the legend is, and the height of its rows


def _legend(style, y):
    """(elements, the y of the last row): names that do not fit into a row begin another one."""
    parts, x = [], 70.0
    for side in style.sides:
        width = 56 + 7.6 * len(side)
        if x > 70 and x + width > WIDTH:
            x, y = 70.0, y + _ROW
        colour = style.colour(side)
        parts += [
            marks.line(x, y, x + 26, y, colour, 2, style.dash(side)),
            marks.symbol(style.symbol(side), x + 13, y, colour, side),
            marks.text(x + 32, y + 4.5, side, 13, "start")
        ]
        x += width
    return parts, y


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
    style = marks.Style(session)
    plain = [side for side in session.sides if side != session.control]
    bandwidth = _curves(points, plain, lambda point, side: point.series[side].bandwidths())
    time = _curves(points, plain, lambda point, side: point.series[side].times())
    speed = _curves(points, session.others, lambda point, side: point.speed[side])
    if not time:
        return None
    panels = [(panel.Panel((70, 78, 460, 350), "time, us", time, axes.value_axis,
                           axes.value_ticks), "us")]
    if bandwidth:
        panels.append((panel.Panel((550, 78, 940, 350), "bus bandwidth, GB/s", bandwidth,
                                   axes.value_axis, axes.value_ticks), "GB/s"))
    if speed:
        panels.append((panel.Panel((70, 440, 940, 650), f"speed, {session.base} = 1 (above: faster)",
                                   speed, axes.ratio_axis, axes.ratio_ticks),
                       f"times the speed of {session.base}"))
    legend, last = _legend(style, _LEGEND)
    height = (HEIGHT if speed else 400) + last - _LEGEND
    head = [marks.text(WIDTH / 2, 22, title, 15, extra=' font-weight="bold"'), *legend]
    return _document(title, height, [*head, f'<g transform="translate(0 {last - _LEGEND})">',
                                     *_drawn(session, style, panels), "</g>"])


def _drawn(session, style, panels):
    parts = []
    for one, unit in panels:
        one.frame()
        if one.y.logarithmic is False:
            one.band(one.curves.get(session.control, []))
            one.level(1)
        one.draw(style, unit)
        parts += one.parts
    return parts


def _document(title, height, parts):
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" font-family="sans-serif">\n<title>{escape(title)}</title>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n')
