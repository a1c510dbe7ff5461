"""The table of counts, wire_cost.json, and the tables of docs/wire-cost.md, which are made from it."""

import json
import pathlib

import wire_cases
import wire_model
from wire_model import End, Request

TABLE = pathlib.Path(__file__).resolve().parent / "wire_cost.json"
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "wire-cost.md"
_COUNTS = ("doorbells", "receives", "receive_doorbells", "send_completions", "receive_completions")
_TOLERANCE = 0.006  # of a count a message: where a batch of slots meets the end of the ring
_NAMES = {"gdr": "this plugin", "nccl-ib": "built-in IB"}


def read_table():
    """{plugin: {case: [sender, receiver]}}."""
    return json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}


def as_data(end):
    requests = [[key.opcode, key.bytes, key.inline, key.signaled, round(count, 5)]
                for key, count in sorted(end.requests.items(), key=lambda item: str(item[0]))]
    return {"requests": requests, **{name: round(getattr(end, name), 5) for name in _COUNTS}}


def text_of_table(table):
    """One line for each case, so that a difference is one line."""
    plugins = []
    for plugin, cases in table.items():
        lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(ends)}" for case, ends in cases.items())
        plugins.append(f" {json.dumps(plugin)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(plugins) + "\n}\n"


def ends_of(table, plugin, case):
    """(sender, receiver) as the table has them."""
    return tuple(End({Request(*shape[:4]): shape[4] for shape in data["requests"]},
                     **{name: data[name] for name in _COUNTS})
                 for data in table[plugin][case.name])


def differences(case, expected, found):
    """What differs between two pairs of ends, in sentences."""
    texts = []
    for side, one, other in zip(("sender", "receiver"), expected, found):
        pairs = [(name, getattr(one, name), getattr(other, name)) for name in _COUNTS]
        pairs += [(str(key), one.requests.get(key, 0), other.requests.get(key, 0))
                  for key in {**one.requests, **other.requests}]
        texts += [f"{case.name}: {side}: {name}: expected {a:.4f} a message, found {b:.4f}"
                  for name, a, b in pairs if abs(a - b) > _TOLERANCE]
    return texts


def number(value):
    """At most three digits after the point, and none that say nothing."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 100 else f"{value:,.0f}"


HEADINGS = f"{'':36} {'doorbells':>13} {'requests':>13} {'CQEs':>13} {'WQE bytes':>13} {'receives':>8}"


def row(case, ends):
    """One line of the program: sender + receiver."""
    columns = [[end.doorbells for end in ends], [end.total() for end in ends],
               [end.send_completions + end.receive_completions for end in ends],
               [end.total(wire_model.wqe_bytes) for end in ends]]
    words = " ".join(f"{' + '.join(number(value) for value in column):>13}" for column in columns)
    return f"{case.name:36} {words} {number(ends[1].receives):>8}"


def _table(headings, rows):
    """Of Markdown: the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(headings) + " |", "|---|" + "---:|" * (len(headings) - 1)]
    return "\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in rows])


def _both(cells):
    return " / ".join(cells)


def _sides(table, case):
    """(our ends, the built-in transport's, which has no standby rails)."""
    return [ends_of(table, "gdr", case)] + ([] if case.standby else [wire_cases.builtin_ib(case)])


def _counts(table):
    headings = ["message", "doorbells", "doorbells", "WQEs", "WQEs", "receives", "CQEs", "CQEs"]
    rows = [["", "sender", "receiver", "sender", "receiver", "receiver", "sender", "receiver"]]
    for case in wire_cases.CASES.values():
        sides = _sides(table, case)
        functions = [lambda ends: ends[0].doorbells, lambda ends: ends[1].doorbells,
                     lambda ends: ends[0].total(), lambda ends: ends[1].total(),
                     lambda ends: ends[1].receives, lambda ends: ends[0].send_completions,
                     lambda ends: ends[1].receive_completions + ends[1].send_completions]
        rows.append([case.name] + [_both(number(function(ends)) for ends in sides)
                                   for function in functions])
    return _table(headings, rows)


def _bus(table):
    headings = ["message", "CPU writes", "bytes", "HCA reads", "WQE bytes", "CQE bytes", "receive WQE bytes"]
    rows = []
    for case in wire_cases.CASES.values():
        cells = []
        for ends in _sides(table, case):
            costs = [wire_model.bus(end) for end in ends]
            cells.append([number(sum(cost[name] for cost in costs))
                          for name in ("cpu_writes", "cpu_write_bytes", "hca_reads", "hca_read_bytes",
                                       "cqe_bytes", "receive_wqe_bytes")])
        rows.append([case.name] + [_both(column) for column in zip(*cells)])
    return _table(headings, rows)


def _wire(table):
    headings = ["message", "packets, MTU 4096", "header bytes, IB", "header bytes, RoCE v2",
                "packets, MTU 1024", "header bytes, RoCE v2", "acknowledgements"]
    rows = []
    for case in wire_cases.CASES.values():
        if case.gpu:
            continue  # as without: a flush stays within its HCA
        cells = []
        for ends in _sides(table, case):
            def total(function, ends=ends):
                return sum(end.total(function) for end in ends)

            def headers(mtu, link, total=total, case=case):
                return total(lambda request: wire_model.wire_bytes(request, mtu, link)) - case.bytes

            cells.append([number(total(lambda request: wire_model.packets(request, 4096))),
                          number(headers(4096, "InfiniBand")), number(headers(4096, "RoCE v2")),
                          number(total(lambda request: wire_model.packets(request, 1024))),
                          number(headers(1024, "RoCE v2")),
                          number(total(lambda request: 0 if request.local else 1))])
        rows.append([case.name] + [_both(column) for column in zip(*cells)])
    return _table(headings, rows)


def text_of_page(text, table):
    """The page with the tables between its markers made anew."""
    for name, make in (("counts", _counts), ("bus", _bus), ("wire", _wire)):
        begin, end = f"<!-- wire_cost {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        text = head + begin + make(table) + "\n" + end + rest.split(end)[1]
    return text


def write(table):
    PAGE.write_text(text_of_page(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
