"""Comparisons: the rounds of every kind of them, and reports of nccl-tests and of nccl-gdr perf.

Programs import this before any module that an older Python cannot parse.
"""

import os
import sys

if sys.version_info < (3, 9):
    print(f"{sys.argv[0]}: this needs Python 3.9 or later, and {sys.executable} is {sys.version.split()[0]}. "
          "Fix: put a newer python3 first in PATH", file=sys.stderr)
    sys.exit(3)


def _end(kind, error, trace):
    sys.__excepthook__(kind, error, trace)
    if issubclass(kind, Exception):  # Python exits with 1, which means that a rail is slow or results are wrong
        print(f"{sys.argv[0]}: this is a defect of it, or a part of Python is missing. Fix: report it with the lines "
              "above; install all of Python's standard library", file=sys.stderr)
        os._exit(3)


sys.excepthook = _end
from comparelib import standard_output  # pylint: disable=wrong-import-position

standard_output.watch()
