"""Adds up a callgrind profile by shared object."""

import collections
import os
import re

_OBJECT = re.compile(r"ob=\((\d+)\)(?: (.*))?$")
_COST = re.compile(r"(?:[+*-]?\d*|0x[0-9a-f]+) (\d+)$")


def self_cost_by_object(text):
    """{shared object's file name: instructions executed in it} over the whole profile.

    Costs of calls, which the format gives on the line after "calls=", belong to the callee, whose
    own lines count them; they are passed over here. Names are given once and by number later.
    """
    names, costs = {}, collections.Counter()
    current, after_call = None, False
    for line in text.splitlines():
        if after_call:
            after_call = False
        elif line.startswith("calls="):
            after_call = True
        elif match := _OBJECT.match(line):
            if match[2] is not None:
                names[match[1]] = os.path.basename(match[2])
            current = names[match[1]]
        elif line.startswith("cob=("):
            # Names a callee's object, perhaps for the first time, but costs stay with the caller.
            match = _OBJECT.match(line[1:])
            if match[2] is not None:
                names[match[1]] = os.path.basename(match[2])
        elif current is not None and (match := _COST.match(line)):
            costs[current] += int(match[1])
    return costs
