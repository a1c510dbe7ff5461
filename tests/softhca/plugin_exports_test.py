#!/usr/bin/env python3
"""Fails where the plugin exports anything but the tables that it has.

usage: plugin_exports_test.py PLUGIN ABI_FOLDER

Other names (ncclCollNetPlugin_v*, ncclTunerPlugin_v*, C++) would be looked up in the application's
process.
"""
import re
import subprocess
import sys
from pathlib import Path


def exports(library):
    """{name: nm's letter for its kind} of what a library defines."""
    table = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    return {name: kind for _, kind, name in (line.split() for line in table.splitlines())}


def main():
    found = exports(sys.argv[1])
    versions = sorted(int(re.fullmatch(r"net_v(\d+)\.h", path.name)[1])
                      for path in Path(sys.argv[2]).glob("net_v*.h"))
    expected = {f"ncclNetPlugin_v{version}": "D" for version in versions}
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            print(f"{name}: {found.get(name, 'missing')}, expected {expected.get(name, 'nothing')}")
    print(f"{len(found)} exported, {len(expected)} expected: v{versions[0]} to v{versions[-1]}")
    sys.exit(0 if found == expected else 1)


main()
