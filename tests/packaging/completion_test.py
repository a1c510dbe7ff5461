#!/usr/bin/env python3
"""Fails where packaging/nccl-gdr.bash completes other words than it should.

usage: completion_test.py NCCL_GDR
"""

import subprocess
import sys
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1)
_SCRIPT = Path(__file__).resolve().parents[2] / "packaging/nccl-gdr.bash"
_CODE = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nccl_gdr; '
         'printf "%s\\n" "${COMPREPLY[@]}"')

# What is typed behind the program, and what is offered for the last word.
_CASES = [
    (["to"], {"topo"}),
    (["perf", ""], {"sendrecv", "all_reduce"}),
    (["perf", "sendrecv", "--no"], {"--no-check"}),
    (["doctor", "--li"], {"--list"}),
    (["doctor", "--root", "/", "--li"], {"--list"}),
    (["topo", "--from", ""], set()),  # a file
    (["topo", ""], set()),
    (["unknown", "--"], {"--help", "--version"}),  # those of nccl-gdr
    (["with-softhca", "--fol"], {"--folder"}),
    (["with-softhca", "compge"], {"compgen"}),
    (["with-softhca", "false", "--fol"], set()),  # an option of the program, which is not run
]


class Bash(unittest.TestCase):
    def test_words(self):
        for words, wanted in _CASES:
            with self.subTest(words):
                done = subprocess.run(["bash", "-euc", _CODE, "bash", str(_SCRIPT), PROGRAM, *words],
                                      check=True, text=True, stdout=subprocess.PIPE)
                self.assertEqual(set(done.stdout.split()), wanted)


if __name__ == "__main__":
    unittest.main()
