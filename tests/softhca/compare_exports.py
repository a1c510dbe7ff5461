#!/usr/bin/env python3
"""Fails when a library does not export every symbol@version of another one, or exports more.

usage: compare_exports.py OURS THEIRS

The compatibility versions at IBVERBS_1.0 of symbols that have a later version are not needed. What
later versions of rdma-core added may be exported beside it, as its map file
(libibverbs/libibverbs.map.in) has it.
"""
import subprocess
import sys


NEWER = {("ibv_query_port_speed", "IBVERBS_1.16")}


def exports(library):
    """{(name, version)} of what a library defines."""
    table = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    found = set()
    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] == "UND" or "@" not in fields[7]:
            continue
        name, version = fields[7].replace("@@", "@").split("@")
        if not name.startswith("IBVERBS"):
            found.add((name, version))
    return found


def main():
    ours, theirs = exports(sys.argv[1]), exports(sys.argv[2])
    newer = {name for name, version in theirs if version != "IBVERBS_1.0"}
    needed = {(name, version) for name, version in theirs
              if version != "IBVERBS_1.0" or name not in newer}
    missing, extra = needed - ours, ours - theirs - NEWER
    for name, version in sorted(missing):
        print(f"missing: {name}@{version}")
    for name, version in sorted(extra):
        print(f"not in {sys.argv[2]}: {name}@{version}")
    print(f"{len(needed)} needed, {len(missing)} missing, {len(extra)} extra")
    sys.exit(1 if missing or extra else 0)


main()
