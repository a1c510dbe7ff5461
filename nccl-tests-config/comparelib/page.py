"""Writes a comparison as one HTML file that needs no other file and no network."""

from html import escape

from comparelib import comparison, report, session as sessions

_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 1100px; margin: 2em auto;
  padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.25em; margin-top: 2em; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: 2px 8px; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap; }
thead th { background: #f3f3f3; } table.facts th, table.facts td { text-align: left; }
.scroll { overflow-x: auto; } svg { max-width: 100%; height: auto; }
pre { background: #f6f6f6; padding: .7em; overflow-x: auto; font-size: 12px; }
.faster, .pass { color: #00634a; font-weight: 600; } .slower, .fail, .wrong { color: #a33b00; font-weight: 600; }
.verdict { padding: .6em 1em; border-left: 5px solid #009e73; background: #f2faf7; }
.verdict.fail { border-color: #d55e00; background: #fdf4ee; color: inherit; font-weight: inherit; }
"""


def _list(texts):
    return "<ul>\n" + "\n".join(
        f"<li>{escape(text)}</li>" for text in texts) + "\n</ul>" if texts else ""


def _cell(text):
    kind = f' class="{text}"' if text in (comparison.FASTER, comparison.SLOWER,
                                          comparison.WRONG) else ""
    return f"<td{kind}>{escape(text)}</td>"


def _table(table):
    groups, headings, lines = table
    top = "".join(
        f'<th colspan="{columns}" scope="colgroup">{escape(name)}</th>' for name, columns in groups)
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "\n".join("<tr>" + f'<th scope="row">{escape(line[0])}</th>' +
                     "".join(map(_cell, line[1:])) + "</tr>" for line in lines)
    return (f'<div class="scroll"><table>\n<thead><tr>{top}</tr>\n<tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody></table></div>")


def _program(session, program, points, picture):
    parts = [f"<h2>{escape(program)}</h2>", _list(report.sentences(session, points))]
    if picture:
        parts.append(f'<div class="scroll">{picture}</div>')
    parts.append(_table(report.build(session, points)))
    return "\n".join(part for part in parts if part)


def _facts(session):
    machine = sessions.machine(session)
    gpus = ", ".join(f"{count} x {name}" for name, count in (machine["gpus"] or {}).items())
    rows = [("date", session.facts.get("date")), ("hosts", ", ".join(machine["hosts"] or [])),
            ("GPUs", gpus), ("ranks", machine["ranks"]), ("mode", machine["mode"]),
            ("preset", session.facts.get("preset")),
            ("software HCA", "yes" if machine["softhca"] else None), ("rounds", session.rounds),
            ("half of the results", sessions.place(session)), *sessions.versions(session)]
    body = "\n".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
                     for name, value in rows if value)
    return f'<h2>Machine and versions</h2>\n<table class="facts"><tbody>\n{body}\n</tbody></table>'


def _left_out(session):
    texts = [f"{run.program} over {run.transport}, round {run.repeat + 1}: {reason}"
             for run in session.runs for reason in run.left_out]
    defects = [f"{run.program} over {run.transport}, round {run.repeat + 1}: {reason}"
               for run in session.runs for reason in run.defects]
    parts = ["<h2>Runs that do not count</h2>"]
    if not texts and not defects:
        parts.append(f"<p>None: all {len(session.runs)} runs are in the tables.</p>")
    if texts:
        parts += ["<p>Left out of tables and plots:</p>", _list(texts)]
    if defects:
        parts += ["<p>In the tables, with a defect:</p>", _list(defects)]
    for run, file, lines in sessions.causes(session):
        text = escape("\n".join(lines))
        parts.append(f"<p>{escape(run)}: the end of {escape(file)}</p>\n<pre>{text}</pre>")
    if session.notes:
        parts += ["<h2>Notes</h2>", _list(session.notes)]
    return "\n".join(parts)


def channels(session):
    """What the channels of each side used, by the log of its first round."""
    found = []
    for run in session.runs:
        if run.repeat == 0 and not run.log.empty:
            ends = ", ".join(
                f"via {channel} x{count}" for channel, count in sorted(run.log.channels.items()))
            used = ",".join(sorted(run.log.networks)) or "none named"
            found.append(
                f"{run.program} {run.transport}: network {used}; {ends or 'no network channel'}")
    return found


def _commands(session):
    commands = dict.fromkeys(run.command for run in session.runs if run.command and run.repeat == 0)
    sources = [f"{run.transport}: {run.source}" for run in session.runs if not run.command]
    if not commands and not sources:
        return ""
    title = "Commands" if commands else "Files"
    text = escape("\n\n".join(commands) if commands else "\n".join(dict.fromkeys(sources)))
    return f"<h2>{title}</h2>\n<pre>{text}</pre>"


def html(session, found, pictures, outcome):
    """The page. `found` maps a program to its points, `pictures` to its SVG; `outcome` is an Outcome."""
    title = f"NCCL transports compared: {', '.join(side for side in session.sides if side != session.control)}"
    state = "verdict fail" if outcome.status else "verdict"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<div class="{state}">\n<p>{escape(outcome.headline)}</p>\n{_list(outcome.lines)}</div>'
    ]
    parts += [
        _program(session, program, points, pictures.get(program))
        for program, points in found.items()
    ]
    parts.append(
        "<h2>How to read it</h2>\n<p>Times and bus bandwidths are medians over the rounds; a bandwidth is in 10<sup>9</sup> "
        "bytes/s. A speed is the ratio of the times within one round, above 1 where the transport is faster than "
        f"{escape(session.base)}, with the smallest and largest round beside it. A tie is a difference that the rounds "
        "disagree on, or that is no larger than what the control, the base measured a second time, differs "
        "from itself. In the plots, bars are the spread and the grey area is the control.</p>")
    if log := channels(session):
        parts.append(
            f"<h2>Transport of the channels</h2>\n<p>Ends of channels, all ranks, first round.</p>\n{_list(log)}"
        )
    parts += [_left_out(session), _facts(session), _commands(session)]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        f'content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n<style>{_CSS}</style>\n'
        f"</head>\n<body>\n{body}\n</body>\n</html>\n")
