"""Draws one program's comparison with matplotlib, where it is installed: time, bus bandwidth and speed over size.

Bars are the spread over the rounds, the grey band of the speeds is the control.
"""

import functools

MISSING = ("No picture was drawn: it needs matplotlib (Debian and Ubuntu: apt-get install python3-matplotlib). "
           "The tables have the same figures.")
_BAND = "#cccccc"


@functools.lru_cache
def library():
    """matplotlib.pyplot, or None where it is not installed. Loading it takes a second, so it waits for its use."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")  # without a display
    from matplotlib import pyplot
    return pyplot


def _curve(points, take):
    """(sizes, medians, [below, above]) of the points that have a value."""
    found = [(point.size, summary) for point in points if (summary := take(point)) is not None]
    return ([size for size, _ in found], [one.median for _, one in found
                                          ], [[one.median - one.low for _, one in found],
                                              [one.high - one.median for _, one in found]])


def _panel(axis, title, curves):
    """`curves` maps a side to what _curve() returned."""
    axis.set(title=title, xlabel="message size, bytes")
    axis.grid(alpha=0.4)
    if any(sizes for sizes, _, _ in curves.values()):  # not where every run of a side failed
        axis.set_xscale("log", base=2)
    for (side, (sizes, medians, spread)), marker in zip(curves.items(), "os^dvX*P" * len(curves)):
        axis.errorbar(sizes, medians, yerr=spread, label=side, marker=marker, capsize=3)
    axis.legend()


def _band(axis, points, control):
    found = [(point.size, point.speed[control]) for point in points if point.speed.get(control)]
    axis.fill_between([size for size, _ in found], [one.low for _, one in found],
                      [one.high for _, one in found], color=_BAND)
    axis.axhline(1, color="black", linewidth=1)


def draw(session, points, title, path):
    """Writes the picture in the format of the path's suffix. Returns None, or why there is none, as a sentence."""
    pyplot = library()
    if pyplot is None:
        return MISSING
    plain = [side for side in session.sides if side != session.control]
    others = [side for side in session.others if side != session.control]
    figure, axes = pyplot.subplots(1, 3, figsize=(18, 6), layout="constrained")
    figure.suptitle(title)
    for axis, name, take in (
            (axes[0], "time, us", lambda point, side: point.series[side].times()),
            (axes[1], "bus bandwidth, GB/s", lambda point, side: point.series[side].bandwidths())):
        _panel(axis, name, {side: _curve(points, lambda point, side=side: take(point, side)) for side in plain})
        axis.set_yscale("log")
    _band(axes[2], points, session.control)
    _panel(axes[2], f"speed, {session.base} = 1 (above: faster)",
           {side: _curve(points, lambda point, side=side: point.speed[side]) for side in others})
    figure.savefig(path)
    pyplot.close(figure)
    return None
