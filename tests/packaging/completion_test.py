#!/usr/bin/env python3
"""Fails where the completion of a shell differs from what --help of each subcommand prints.

usage: completion_test.py NCCL_GDR

bash is always tried; fish and zsh where they are installed.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1)
_OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


def output_of(*words: str) -> str:
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout


def help_of(path: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """The options and the subcommands that --help prints for a path of subcommands."""
    text = output_of(PROGRAM, *path, "--help")
    options, commands, in_commands = set(), set(), False
    for line in text.splitlines():
        if line == "Subcommands:":
            in_commands = True
        elif in_commands and (found := re.match(r"  ([a-z][\w-]*)", line)):
            commands.add(found[1])
        elif not in_commands and (found := re.match(r" {2,4}(-[^ ]*)", line)):
            # "-b,--begin": the names end at the first blank; "--check,!--no-check{false}" has more.
            options.update(_OPTION.findall(found[1]))
    return options, commands


def all_paths(path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    below = [all_paths((*path, name)) for name in sorted(help_of(path)[1])]
    return [path, *(one for paths in below for one in paths)]


PATHS = all_paths()


class Bash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.script = Path(cls.folder.name) / "nccl-gdr"
        cls.script.write_text(output_of(PROGRAM, "completion", "bash"))

    def completions(self, *words: str) -> set[str]:
        """What bash offers for the last of these words."""
        code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nccl_gdr; '
                'printf "%s\\n" "${COMPREPLY[@]}"')
        done = output_of("bash", "-euc", code, "bash", str(self.script), *words)
        return {line for line in done.splitlines() if line}

    def test_options_and_subcommands_are_those_of_the_help(self):
        self.assertIn(("perf", "sendrecv"), PATHS)
        for path in PATHS:
            with self.subTest(path=path):
                options, commands = help_of(path)
                self.assertTrue(options)
                self.assertEqual(self.completions("nccl-gdr", *path, "-"), options)
                if path != ("with-softhca",):
                    self.assertEqual(self.completions("nccl-gdr", *path, ""), options | commands)

    def test_a_prefix_narrows_the_words(self):
        self.assertEqual(self.completions("nccl-gdr", "perf", "send"), {"sendrecv"})

    def test_a_value_is_left_to_file_names(self):
        self.assertEqual(self.completions("nccl-gdr", "topo", "--svg", ""), set())
        self.assertEqual(self.completions("nccl-gdr", "topo", "--svg", "=", ""), set())

    def test_a_value_that_is_named_like_a_subcommand_is_no_subcommand(self):
        self.assertEqual(self.completions("nccl-gdr", "doctor", "--root", "perf", "--fix"),
                         {"--fix-script"})

    def test_with_softhca_offers_programs(self):
        self.assertIn("bash", self.completions("nccl-gdr", "with-softhca", "bas"))
        self.assertIn("bash", self.completions("nccl-gdr", "with-softhca", "--config", "f", "bas"))
        self.assertEqual(self.completions("nccl-gdr", "with-softhca", "bash", "--fo"), set())


class Fish(unittest.TestCase):
    def test_options_and_subcommands_are_those_of_the_help(self):
        if shutil.which("fish") is None:
            self.skipTest("fish is not installed")
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "nccl-gdr.fish"
            script.write_text(output_of(PROGRAM, "completion", "fish"))
            for path in PATHS:
                line = " ".join(["nccl-gdr", *path, "-"])
                offered = output_of("env", f"HOME={folder}", "fish", "--no-config", "-c",
                                    f"source {script}; complete -C '{line}'")
                self.assertEqual({one.split("\t")[0] for one in offered.splitlines()},
                                 help_of(path)[0], line)


class Zsh(unittest.TestCase):
    def test_script_names_every_option_and_has_no_error(self):
        if shutil.which("zsh") is None:
            self.skipTest("zsh is not installed")
        script = output_of(PROGRAM, "completion", "zsh")
        subprocess.run(["zsh", "-n", "/dev/stdin"], input=script, text=True, check=True)
        code = ('compdef() { }; source /dev/stdin; flags=() valued=() subcommands=(); '
                '_nccl_gdr_words "$1"; print -rl -- $flags $subcommands')
        for path in PATHS:
            done = subprocess.run(["zsh", "-fc", code, "zsh", " ".join(["nccl-gdr", *path])],
                                  input=script, text=True, check=True, stdout=subprocess.PIPE)
            offered = {line.split(":")[0] for line in done.stdout.splitlines()}
            options, commands = help_of(path)
            self.assertEqual(offered, options | commands, path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
