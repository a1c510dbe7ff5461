"""Reads the JSON that the programs of nccl-tests write with -J FILE.

nccl-tests writes it from 2.17.3 on, as version 1 of its format; 2.19.2 to 2.19.5 write version 2, and
2.19.6 version 3. They differ in what is not used here (single iterations, and the spelling of
"bandwidth"). Source: src/util.cu of https://github.com/NVIDIA/nccl-tests at the tags v2.17.3 to v2.19.6.

    {"version": 3, "args": ["all_reduce_perf", ...], "env": [...], "nccl_version": 22803,
     "config": {"nthreads": 1, "ngpus": 2, ..., "devices": [{"hostname": ..., "device_info": ...}]},
     "results": [{"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "    -1",
                  "out_of_place": {"time": 22.1, "alg_bw": 0.0, "bus_bw": 0.0, "nwrong": 0.0},
                  "in_place": {...}, ...}],
     "out_of_bounds": {"count": 0, "okay": "true"}, ..., "end_time": "2026-07-09 16:00:00"}

The list of devices has one entry a process, for the first GPU of that process. Releases before 2.19.2
leave the text without its end where the program is aborted; its complete rows are read nevertheless.
"""

import json
import math
import re

from comparelib import perf_table

VERSIONS = (1, 2, 3)
_RESULTS = re.compile(r'"results"\s*:\s*\[')
# The writer prints an infinite number as printf does, which is no JSON.
_INFINITE = re.compile(r"(?<=[:\[,])(-?)inf(?=\s*[,}\]])")


class JsonError(Exception):
    """The text is not what nccl-tests writes; the message says what is wrong."""


def looks_like_json(text):
    return text.lstrip("\ufeff \t\r\n").startswith("{")


def _rows_of_a_torso(text):
    """(what precedes the results, the complete rows) of a text that ends too early."""
    start = _RESULTS.search(text)
    if start is None:
        raise JsonError("the text ends before its results")
    head = json.loads(text[:start.end()] + "]}")
    decoder, rows, at = json.JSONDecoder(), [], start.end()
    while True:
        while at < len(text) and text[at] in ", \t\r\n":
            at += 1
        try:
            row, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return {**head, "results": rows}
        rows.append(row)


def _document(text):
    text = _INFINITE.sub(r"\1Infinity", text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        try:
            return _rows_of_a_torso(text)
        except json.JSONDecodeError:
            raise JsonError(f"no JSON: {error}") from error


def _measure(half):
    """A Measure and whether its time is the CPU's; None for an absent half."""
    if half is None:
        return None
    time_us = half["cpu_time"] if "cpu_time" in half else half["time"]
    wrong = half.get("nwrong")
    return perf_table.measure([time_us, half["alg_bw"], half["bus_bw"],
                               "N/A" if wrong is None else wrong])


def _row(entry, notes):
    halves = [entry.get("out_of_place"), entry.get("in_place")]
    measures = [_measure(half) for half in halves]
    size = int(entry["size"])
    for half, result in zip(halves, measures):
        if half is not None and result is None:
            notes.append(f"at {size} B the time is {half.get('time', half.get('cpu_time'))}")
    kind = " ".join(entry[name] for name in ("type", "redop") if entry.get(name, "none") != "none")
    return perf_table.Row(size, *measures, kind) if any(measures) else None


def _ranks(config):
    """One entry a rank: (host, GPU)."""
    each = int(config.get("nthreads", 1)) * int(config.get("ngpus", 1))
    return [(device.get("hostname", ""), device.get("device_info", ""))
            for device in config.get("devices", []) for _ in range(each)]


def parse(text):
    """The PerfTable in `text`. Raises JsonError."""
    document = _document(text)
    if not isinstance(document, dict) or not isinstance(document.get("results", []), list):
        raise JsonError('not written by nccl-tests -J: there is no list "results"')
    if "results" not in document:
        raise JsonError('there is no list "results": the program ended before it measured')
    notes = []
    version = document.get("version")
    if version not in VERSIONS:
        notes.append(
            f"the JSON has version {version}; known are 1 to {VERSIONS[-1]} (nccl-tests 2.17.3 "
            "to 2.19.6)")
    if "end_time" not in document:
        notes.append("the program ended before its last lines")
    try:
        rows = [_row(entry, notes) for entry in document["results"]]
        ranks = _ranks(document.get("config", {}))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JsonError(f"a result lacks or misstates {error}") from error
    halves = [half for entry in document["results"]
              for half in (entry.get("out_of_place"), entry.get("in_place")) if half]
    arguments = document.get("args") or [""]
    average = next((found.get("bandwidth", found.get("bandwidith"))
                    for found in (document.get("average_bus_bandwidth"),
                                  document.get("average_bus_bandwidith"))
                    if found), None)
    return perf_table.PerfTable(
        [row for row in rows if row], (document.get("out_of_bounds") or {}).get("count"),
        average if isinstance(average, (int, float)) and math.isfinite(average) else None,
        [gpu for _, gpu in ranks], [host for host, _ in ranks],
        str(arguments[0]).rsplit("/", 1)[-1], "", str(document.get("nccl_version", "")),
        any("cpu_time" in half for half in halves), False, notes)
