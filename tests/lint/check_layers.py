#!/usr/bin/env python3
"""Fails where an #include points back up: from a folder to one that is not below it, or in a circle.

usage: check_layers.py [ROOT]
"""

import re
import sys
from pathlib import Path

# A folder may include from itself and from the folders listed for it. Each folder is listed after all
# folders that it may include, so the table itself has no way back up.
LAYERS = {
    "base": [],
    "drivers/cuda": ["base"],
    "drivers/nvml": ["base"],
    "drivers/verbs": ["base"],
    "topology": ["base"],
    "topology/sources": ["topology", "base"],
    "topology/live": ["topology/sources", "topology", "drivers/cuda", "drivers/nvml", "base"],
    "transport/wire": ["base"],
    "transport/device": ["transport/wire", "drivers/verbs", "drivers/cuda", "base"],
    "transport/memory": ["transport/device", "transport/wire", "drivers/verbs", "drivers/cuda", "base"],
    "transport/pairs": ["transport/memory", "transport/device", "transport/wire", "drivers/verbs", "drivers/cuda", "base"],
    "transport/link": ["transport/pairs",
        "transport/memory", "transport/device", "transport/wire", "drivers/verbs", "drivers/cuda", "base"],
    "transport/recovery": ["transport/link", "transport/pairs",
        "transport/memory", "transport/device", "transport/wire", "drivers/verbs", "drivers/cuda", "base"],
    "transport/watch": ["transport/recovery", "transport/link", "transport/pairs",
        "transport/memory", "transport/device", "transport/wire", "drivers/verbs", "drivers/cuda", "base"],
    "transport/data": ["transport/watch", "transport/recovery", "transport/link", "transport/pairs",
        "transport/memory", "transport/device", "transport/wire", "drivers/verbs", "drivers/cuda", "base"],
    "transport": ["transport/data", "transport/watch", "transport/recovery", "transport/link", "transport/pairs",
        "transport/memory", "transport/device", "transport/wire", "drivers/verbs", "drivers/cuda", "base"],
    "plugin/abi": ["base"],
    "plugin/discovery": ["topology/sources", "topology", "transport/device", "drivers/verbs", "base"],
    "plugin/config": ["plugin/discovery", "topology/live", "topology/sources", "topology", "transport/device", "base"],
    "plugin": ["plugin/config", "plugin/discovery", "plugin/abi", "topology/live", "topology/sources", "topology",
               "transport", "transport/data", "transport/watch", "transport/recovery", "transport/link",
               "transport/pairs", "transport/memory", "transport/device",
               "transport/wire", "drivers/verbs", "drivers/cuda", "base"],
    "tools/common": ["plugin/abi", "drivers/cuda", "base"],
    "tools/net": ["tools/common", "plugin/abi", "base"],
    "tools/ranks": ["tools/net", "tools/common", "plugin/abi", "base"],
    "tools/conformance": ["tools/ranks", "tools/net", "tools/common", "plugin/abi", "drivers/cuda",
                          "base"],
    "tools/perf": ["tools/ranks", "tools/net", "tools/common", "plugin/abi", "drivers/cuda", "base"],
    "tools/prediction": ["topology/live", "topology", "base"],
    "tools/sources": ["topology/sources", "topology", "base"],
    "tools/inspection": ["tools/prediction", "tools/sources", "tools/common", "plugin/config", "plugin/discovery", "topology/live", "topology/sources",
                         "topology", "transport/device", "drivers/verbs", "base"],
    "tools/topo": ["tools/inspection", "tools/prediction", "tools/common", "plugin/config", "plugin/discovery", "topology/sources", "topology", "transport/device", "base"],
    "tools/doctor": ["tools/inspection", "tools/prediction", "tools/common", "plugin/config", "plugin/discovery", "topology/live",
                     "topology/sources", "topology", "transport/device", "drivers/verbs",
                     "drivers/cuda", "base"],
    "tools": ["tools/doctor", "tools/topo", "tools/inspection", "tools/prediction", "tools/perf", "tools/conformance", "tools/ranks", "tools/net",
              "tools/common", "plugin/config", "plugin/abi", "topology/sources", "topology", "base"],
    "softhca/gpu": ["drivers/cuda", "base"],
    "softhca/model": ["base"],
    "softhca/fabric": ["softhca/model", "softhca/gpu", "base"],
    "softhca/datapath": ["softhca/fabric", "softhca/model", "softhca/gpu", "base"],
    "softhca/verbs": ["softhca/datapath", "softhca/fabric", "softhca/model", "softhca/gpu", "base"],
}

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def _folder(path):
    """The listed folder that a file belongs to, or None where no rule covers it."""
    for folder in [path.parent, *path.parent.parents]:
        if folder.as_posix() in LAYERS:
            return folder.as_posix()
    return None


def _includes(root):
    """Every (file, included file) of the covered folders, as paths relative to the root."""
    for top in sorted({folder.split("/")[0] for folder in LAYERS}):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".h", ".cc", ".def"):
                continue
            for name in _INCLUDE.findall(file.read_text(encoding="utf-8")):
                yield file.relative_to(root), Path(name)


def _upward(pairs):
    for file, included in pairs:
        folder, target = _folder(file), _folder(included)
        if target is None:
            yield f"{file} includes {included}, which is in no folder that {folder} may use"
        elif target != folder and target not in LAYERS[folder]:
            yield f"{file} includes {included}: {folder} may not use {target}"


def _circles(pairs):
    """Circles among files of one stem (a.h and a.cc are one unit)."""
    graph = {}
    for file, included in pairs:
        unit, other = file.with_suffix(""), included.with_suffix("")
        if unit != other:
            graph.setdefault(unit, set()).add(other)
    done, path = set(), []

    def visit(unit):
        if unit in done:
            return
        if unit in path:
            yield " -> ".join(str(one) for one in [*path[path.index(unit):], unit])
            return
        path.append(unit)
        for other in sorted(graph.get(unit, ())):
            yield from visit(other)
        path.pop()
        done.add(unit)

    for unit in sorted(graph):
        for circle in visit(unit):
            yield f"circle of includes: {circle}"


def _table_is_ordered():
    seen = set()
    for folder, below in LAYERS.items():
        for other in below:
            if other not in seen:
                yield f"the table lists {other} after {folder}, which may use it"
        seen.add(folder)


def findings(root):
    pairs = list(_includes(root))
    return [*_table_is_ordered(), *_upward(pairs), *_circles(pairs)], len(pairs)


def main(arguments):
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[2]
    found, includes = findings(root)
    print("\n".join(found + [f"{len(found)} includes that point up, of {includes}"]))
    return 1 if found or includes == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
