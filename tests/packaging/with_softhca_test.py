#!/usr/bin/env python3
"""nccl-gdr with-softhca of a build folder: what the program that it runs gets, and exit statuses.

usage: with_softhca_test.py NCCL_GDR SOFTHCA_FOLDER
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM, SOFTHCA = sys.argv[1:3]
del sys.argv[1:3]


def run(*words: str, **variables: str | None) -> subprocess.CompletedProcess:
    """`nccl-gdr with-softhca WORDS` with these variables set, or unset where they are None."""
    environment = {**os.environ, "NCCL_IBVERBS_LIB": None, **variables}
    environment = {name: value for name, value in environment.items() if value is not None}
    return subprocess.run([PROGRAM, "with-softhca", *words], env=environment, text=True, check=False,
                          capture_output=True)


class WithSofthca(unittest.TestCase):
    def test_folder_is_that_of_the_build(self):
        done = run("--folder")
        self.assertEqual((done.returncode, done.stdout), (0, os.path.realpath(SOFTHCA) + "\n"))

    def test_library_path_begins_with_the_folder(self):
        show = ("sh", "-c", 'echo "$LD_LIBRARY_PATH"')
        folder = os.path.realpath(SOFTHCA)
        self.assertEqual(run(*show, LD_LIBRARY_PATH=None).stdout, f"{folder}\n")
        self.assertEqual(run(*show, LD_LIBRARY_PATH="").stdout, f"{folder}\n")
        self.assertEqual(run(*show, LD_LIBRARY_PATH="/a:/b").stdout, f"{folder}:/a:/b\n")

    def test_arguments_are_passed_unchanged(self):
        words = ["-a", "--config", "x y", "--", "--help", "", "topo"]
        done = run("printf", "%s\\n", *words)
        self.assertEqual(done.stdout.split("\n")[:-1], words, done.stderr)

    def test_exit_status_and_signal_are_those_of_the_program(self):
        self.assertEqual(run("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(run("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)

    def test_program_takes_the_place_of_the_process(self):
        process = subprocess.Popen([PROGRAM, "with-softhca", "sleep", "60"])
        try:
            name = Path(f"/proc/{process.pid}/comm")
            deadline = time.monotonic() + 30
            while name.read_text(encoding="ascii") != "sleep\n" and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertEqual(name.read_text(encoding="ascii"), "sleep\n")
        finally:
            process.terminate()
        self.assertEqual(process.wait(30), -signal.SIGTERM)

    def test_configuration_is_passed(self):
        show = ("sh", "-c", 'cd /; echo "$SOFTHCA_CONFIG"')
        self.assertEqual(run(*show, SOFTHCA_CONFIG="kept").stdout, "kept\n")
        self.assertEqual(run("--config", '{"devices": []}', *show).stdout, '{"devices": []}\n')
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "config.json"
            file.write_text("{}")
            relative = os.path.relpath(file)
            passed = run("--config", relative, *show).stdout.strip()
            self.assertTrue(os.path.isabs(passed), passed)
            self.assertTrue(os.path.samefile(passed, file))

    def test_errors_have_a_fix_and_a_status_of_their_own(self):
        cases = [
            (2, (), "needs a program to run"),
            (2, ("--folder", "ls"), "leave out ls"),
            (2, ("--no-such-option", "ls"), "no option --no-such-option"),
            (2, ("--config", "/no/such/file", "ls"), "name a readable JSON file"),
            (127, ("no-such-program",), "cannot run no-such-program: No such file"),
            (126, ("/",), "cannot run /: Permission denied"),
        ]
        for status, words, text in cases:
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(text, done.stderr)

    def test_a_subcommand_in_place_of_a_program_gets_a_hint(self):
        done = run("conformance", PATH="/nonexistent")
        self.assertEqual(done.returncode, 127)
        self.assertIn("nccl-gdr with-softhca nccl-gdr conformance", done.stderr)

    def test_another_verbs_library_is_warned_of(self):
        self.assertIn("unset NCCL_IBVERBS_LIB", run("true", NCCL_IBVERBS_LIB="x.so").stderr)
        self.assertEqual(run("true").stderr, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
