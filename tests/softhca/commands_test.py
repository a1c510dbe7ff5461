#!/usr/bin/env python3
"""Every command that users run: its exit status and what it says where an option or a file is wrong, standard output
cannot be written, nobody reads it any more, or the user interrupts it; its help, and the keys of its JSON.

usage: commands_test.py BUILD_FOLDER. Prints the table of what was seen.
"""

import collections
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
TOOL, CONFIG = str(BUILD / "bin/nccl-gdr"), ROOT / "nccl-tests-config"
SOFTHCA, COMPARE, BURN_IN = [TOOL, "with-softhca"], [str(CONFIG / "compare")], [str(CONFIG / "nccl-gdr-burn-in")]
PERF = [*SOFTHCA, TOOL, "perf"]
USAGE, COULD_NOT_RUN = 2, 3

# Command: what it prints something by, and what runs until it is interrupted.
COMMANDS = {
    "nccl-gdr": ([TOOL], ["--version"], None),
    "topo": ([TOOL, "topo"], ["--json"], None),
    "doctor": ([TOOL, "doctor"], ["--prometheus"], None),
    "env": ([TOOL, "env"], [], None),
    "conformance": ([*SOFTHCA, TOOL, "conformance"], ["--list"], ["--seed", "1"]),
    "perf sendrecv": ([*PERF, "sendrecv"], ["-b", "8", "-e", "8"], ["--seconds", "100"]),
    "perf all_reduce": ([*PERF, "all_reduce"], ["-e", "8", "--json", "-"], ["--until", "absent"]),
    "with-softhca": (SOFTHCA, ["--folder"], ["sleep", "100"]),
    "compare": (COMPARE, ["--help"], None),
    "compare of a folder": (COMPARE, ["--output", "made", "--read", "a=a.json"], None),
    "nccl-gdr-burn-in": ([*SOFTHCA, *BURN_IN, "local"], ["--help"], []),
    "launch/mpirun": ([str(CONFIG / "launch/mpirun"), "--gpus", "1"], ["--help"], None),
    "tests/bench/all": ([str(ROOT / "tests/bench/all")], ["--help"], None),
}
# Command, its arguments, the exit status and a part of the text for a file that is missing, or empty.
FILES = [
    ("topo", ["--from"], USAGE, "empty"),
    ("doctor", ["--expect"], USAGE, "empty"),
    ("doctor", ["--from"], USAGE, "empty"),
    ("with-softhca", ["--folder", "--config"], USAGE, None),
    ("conformance", ["--plugin"], COULD_NOT_RUN, "too short"),
    ("perf sendrecv", ["--plugin"], COULD_NOT_RUN, "too short"),
    ("perf all_reduce", ["--plugin"], COULD_NOT_RUN, "too short"),
    ("compare", ["--output", "made", "--read"], USAGE, "no complete JSON"),
    ("launch/mpirun", ["--nodes", "2", "--hostfile"], COULD_NOT_RUN, "has 0 hosts"),
]
HELPS = ["", *"perf conformance topo doctor env with-softhca".split(), "perf sendrecv", "perf all_reduce"]


class Commands(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        pathlib.Path(cls.folder, "empty.file").touch()
        pathlib.Path(cls.folder, "folder").mkdir()
        pathlib.Path(cls.folder, "a.json").write_text(
            '{"args": ["all_reduce_perf"], "results": [{"size": 8, "out_of_place": '
            '{"time": 1, "alg_bw": 1, "bus_bw": 1, "nwrong": 0}}]}', encoding="ascii")

    def start(self, words, **streams):
        # Python writes at once where PYTHONUNBUFFERED is set, and fails elsewhere then.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "PYTHONUNBUF"))}
        return subprocess.Popen(words, cwd=self.folder, env={**env, "TERM": "xterm"}, text=True, stdin=subprocess.DEVNULL,
                                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams})

    def see(self, case, process, status, text):
        """The process ends with that status and a text that has this part; "" allows no text at all."""
        _, errors = process.communicate(timeout=120)
        lines = (errors or "").strip().splitlines()
        print(f"| {case} | {process.returncode} | {lines[0][:100] if lines else ''} |")
        with self.subTest(case):
            self.assertEqual(process.returncode, status, errors)
            self.assertIn(text, errors or "")
            self.assertTrue(text or not lines, errors)
            self.assertNotIn("Traceback", errors or "")

    def test_WrongOption_IsAUsageErrorThatNamesIt(self):
        for name, (words, *_) in COMMANDS.items():
            self.see(f"{name}, wrong option", self.start([*words, "--bogus"]), USAGE, "--bogus")

    def test_File_ThatIsMissingOrEmptyIsNamed(self):
        for name, words, status, empty in FILES:
            side = "a=./" if words[-1] == "--read" else "./"  # a plugin is a file where it has a slash
            words = [*COMMANDS[name][0], *words]
            self.see(f"{name}, missing file", self.start([*words, f"{side}absent.file"]), status, "absent.file")
            if empty:
                self.see(f"{name}, empty file", self.start([*words, f"{side}empty.file"]), status, empty)
            self.see(f"{name}, folder", self.start([*words, f"{side}folder"]), status, "folder")

    def test_Value_ThatIsEmptyIsAUsageError(self):
        for name, option in (("topo", "--from"), ("doctor", "--expect"), ("with-softhca", "--config"),
                             ("conformance", "--json"), ("perf sendrecv", "--json"), ("perf all_reduce", "--json")):
            process = self.start([*COMMANDS[name][0], option, ""])
            self.see(f"{name}, {option} ''", process, USAGE, f"{option}: the value is empty. Fix: ")

    def test_NoDevice_IsReportedOnceWithTheFix(self):
        for name in ("conformance", "perf sendrecv", "perf all_reduce"):
            for config in ('{"devices": []}', '{"wrong": 1}'):
                words = [*SOFTHCA, "--config", config, *COMMANDS[name][0][len(SOFTHCA):]]
                case, process = f"{name}, {config}", self.start(words)
                output, errors = process.communicate(timeout=120)
                with self.subTest(case):
                    self.assertEqual((process.returncode, output), (COULD_NOT_RUN, ""))
                    self.assertEqual(errors.count("correct SOFTHCA_CONFIG"), 1, errors)
                    self.assertEqual(errors.count('unknown field "wrong"'), int("wrong" in config), errors)

    def test_Output_ThatCannotBeWrittenIsStatus3(self):
        for name, (words, more, _) in COMMANDS.items():
            with open("/dev/full", "w", encoding="ascii") as full:
                self.see(f"{name}, full disk", self.start([*words, *more], stdout=full), COULD_NOT_RUN, "No space left")
            closed = ["bash", "-c", 'exec "$@" >&-', "bash", *words, *more]
            self.see(f"{name}, closed stdout", self.start(closed), COULD_NOT_RUN, "Bad file descriptor")

    def test_Pipe_ThatNobodyReadsEndsQuietly(self):
        for name, (words, more, _) in COMMANDS.items():
            reader, writer = os.pipe()
            os.close(reader)
            if name == "topo" or name == "compare of a folder":  # these have a note on this machine, or on the runs
                self.start([*words, *more], stdout=writer, stderr=subprocess.DEVNULL).wait(60)
            else:
                self.see(f"{name}, closed pipe", self.start([*words, *more], stdout=writer), -signal.SIGPIPE, "")
            os.close(writer)

    def test_Interrupt_EndsIt(self):
        for name, (words, _, lasting) in COMMANDS.items():
            if lasting is not None:
                process = self.start([*words, *lasting], start_new_session=True)
                time.sleep(1)
                os.killpg(process.pid, signal.SIGINT)
                status = 130 if "burn-in" in name else -signal.SIGINT
                self.see(f"{name}, ctrl-C", process, status, "burn-in" if "burn-in" in name else "")

    def test_Help_FitsATerminalAndHasAnExampleAndTheStatuses(self):
        for command in HELPS:
            with self.subTest(command):
                text = subprocess.check_output([TOOL, *command.split(), "--help"], text=True)
                self.assertLessEqual(max(map(len, text.splitlines())), 80, text)
                self.assertRegex(text, r"\nExample:\n    nccl-gdr .*\n\nExit status: ")
        launchers = [[str(CONFIG / "launch" / name)] for name in ("mpirun", "torchrun", "slurm.sbatch")]
        for words in (COMPARE, BURN_IN, *launchers):
            text = subprocess.check_output([*words, "--help"], text=True, env={**os.environ, "COLUMNS": "80"})
            self.assertLessEqual(max(map(len, text.splitlines())), 80, text)
            self.assertRegex(text, r"(?s)\nexample.*\n\n?exit status")

    def test_Progress_IsShownOnATerminalOnly(self):
        words = [*PERF, "sendrecv", "--test", "bw", "-b", "8", "-e", "8", "--seconds", "6"]
        process = self.start(words)
        output, errors = process.communicate(timeout=120)
        self.assertNotRegex(output + errors, r"\d s\)|\x1b")
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = self.start(words, stderr=side)
        os.close(side)
        output, shown = process.communicate(timeout=120)[0], b""
        try:
            while part := os.read(main, 4096):
                shown += part
        except OSError:
            pass  # the end of a terminal whose other side is closed
        self.assertRegex(shown, rb"\r\x1b\[Ksending messages of 8 B \(\d+ s\)")
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)
        self.assertNotRegex(output, r"\d s\)|\x1b")


def listed_keys(page):
    """{object: its keys} of the tables of a page that name objects as jq does."""
    keys = collections.defaultdict(set)
    for objects, names in re.findall(r"^\| (`\..*?) \| (.*?) \|", page.read_text(encoding="utf-8"), re.MULTILINE):
        for name in re.findall(r"`(.+?)`", objects):
            keys[name].update(re.findall(r"`(.+?)`", names))
    return keys


def printed_keys(value, name, keys):
    """Adds the keys of a value, and of what is in it, but for those that are numbers of nodes or names of ports."""
    if isinstance(value, list):
        for one in value:
            printed_keys(one, name + "[]", keys)
    elif isinstance(value, dict) and not name.endswith((".distances", ".counters")):
        keys[name or "."].update(value)
        for key, one in value.items():
            printed_keys(one, f"{name}.{key}", keys)


class Json(unittest.TestCase):
    """The output of --json has the keys that the pages list, and no other."""
    maxDiff = None

    def keys_of(self, *runs):
        keys = collections.defaultdict(set)
        for words in runs:
            env = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
            printed_keys(json.loads(subprocess.run([TOOL, *map(str, words), "--json"], stdout=subprocess.PIPE, check=False,
                                                   stderr=subprocess.DEVNULL, env=env).stdout), "", keys)
        return keys

    def test_Topo_OfEveryMachine_HasTheKeysOfItsPage(self):
        machines = sorted((ROOT / "tests/topologies").rglob("*.xml"))
        self.assertEqual(self.keys_of(*(["topo", "--from", machine] for machine in machines)),
                         listed_keys(ROOT / "docs/topo.md"))

    def test_Doctor_OfAnHcaWithoutItsDriver_HasTheKeysOfItsPage(self):
        with tempfile.TemporaryDirectory() as root:
            hca = pathlib.Path(root, "sys/bus/pci/devices/0000:3b:00.0")
            for folder in (hca, *(pathlib.Path(root, name) for name in ("proc", "dev", "sys/class", "sys/module"))):
                folder.mkdir(parents=True)
            for name, text in (("vendor", "0x15b3"), ("device", "0x1021"), ("class", "0x020700")):
                (hca / name).write_text(text + "\n", encoding="ascii")
            self.assertEqual(self.keys_of(["doctor"], ["doctor", "--root", root]), listed_keys(ROOT / "docs/doctor.md"))


if __name__ == "__main__":
    unittest.main()
