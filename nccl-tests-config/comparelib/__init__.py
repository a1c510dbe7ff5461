"""Comparisons: the rounds of every kind of them, and reports of nccl-tests and of nccl-gdr perf.

Programs import this before any module that an older Python cannot parse.
"""

import sys

if sys.version_info < (3, 9):
    print(f"{sys.argv[0]}: this needs Python 3.9 or later, and {sys.executable} is {sys.version.split()[0]}. "
          "Fix: put a newer python3 first in PATH", file=sys.stderr)
    sys.exit(3)

from comparelib import standard_output  # pylint: disable=wrong-import-position

standard_output.watch()
