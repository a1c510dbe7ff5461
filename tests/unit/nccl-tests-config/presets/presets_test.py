"""The presets: what they set, why, and the bandwidths that they promise."""

import json
import os
import re
import subprocess
import unittest

from paths import ROOT

_CONFIG = ROOT / "nccl-tests-config"
_PRESETS = sorted((_CONFIG / "presets").glob("*.env"))
# What NCCL's core reads and docs/environment.md does not list:
# https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
_OF_NCCL = {"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_NET_MERGE_LEVEL", "NCCL_MNNVL_ENABLE",
            "NCCL_NVLS_ENABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}
_OF_SCRIPTS = {"GDR_PLUGIN_DIR", "LD_LIBRARY_PATH", "SOFTHCA_DIR"}


def documented():
    """The tables of docs/environment.md: name -> accepted."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", (ROOT / "docs/environment.md").read_text(),
                      re.MULTILINE)
    return {name: accepted.strip() for name, accepted in rows}


def sourced(*files, **caller):
    """The variables that sourcing the files adds to an environment of `caller` alone."""
    script = 'set -a; while (($#)); do source "$1"; shift; done; exec env -0'
    done = subprocess.run(["bash", "-eu", "-c", script, "bash", *map(str, files)],
                          env={"PATH": os.environ["PATH"], "SOFTHCA_DIR": "/softhca", **caller},
                          capture_output=True, check=False)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{files}: {done.stderr.decode()}")
    variables = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if entry)
    return {name: value for name, value in variables.items()
            if name not in ("PATH", "PWD", "SHLVL", "_", "OLDPWD")}


def settings_of(preset):
    """The lines of a preset that set something: (number, text)."""
    return [(number, line) for number, line in enumerate(preset.read_text().split("\n"), 1)
            if line and not line.startswith("#")]


class PresetTest(unittest.TestCase):

    def test_Preset_OnEveryTransport_SourcesCleanlyAndSetsSomething(self):
        for preset in _PRESETS:
            with self.subTest(preset.stem):
                for transport in ("gdr", "ib", "socket"):
                    base = sourced(_CONFIG / "env" / f"{transport}.env")
                    both = sourced(_CONFIG / "env" / f"{transport}.env", preset)
                    self.assertNotEqual(both, base)
                    self.assertEqual(both["NCCL_NET"], base["NCCL_NET"])

    def test_Preset_SetsOnlyVariablesThatAreRead(self):
        known = set(documented()) | _OF_NCCL | _OF_SCRIPTS
        for preset in _PRESETS:
            with self.subTest(preset.stem):
                self.assertEqual(set(sourced(preset)) - known, set())

    def test_Preset_SetsValuesThatAreAccepted(self):
        table = documented()
        for preset in _PRESETS:
            with self.subTest(preset.stem):
                for name, value in sourced(preset).items():
                    accepted = table.get(name, "")
                    if match := re.match(r"(-?\d+) (?:to|or) (-?\d+)\b", accepted):
                        self.assertTrue(int(match[1]) <= int(value) <= int(match[2]), (name, value))
                    elif accepted.startswith("LOC, "):
                        self.assertIn(value, re.findall(r"[A-Z0-9]{3}\b", accepted), name)
                    elif ",...;" in accepted:
                        self.assertRegex(value, r"^\^?=?[\w:]+(,[\w:]+)*$", name)

    def test_EverySetting_HasItsReasonAbove(self):
        for preset in _PRESETS:
            with self.subTest(preset.stem):
                lines = preset.read_text().split("\n")
                self.assertTrue(lines[0].startswith("# "), "the first line names the machine")
                self.assertIn("# Considered and left", preset.read_text())
                for number, line in settings_of(preset):
                    self.assertRegex(lines[number - 2], r"^# .*[.:]$", f"no reason above: {line}")

    def test_VariableOfTheCaller_WinsOverThePreset(self):
        for preset in _PRESETS:
            with self.subTest(preset.stem):
                for _, line in settings_of(preset):
                    if match := re.match(r"(\w+)=", line):
                        self.assertEqual(sourced(preset, **{match[1]: "mine"})[match[1]], "mine")

    def test_KubernetesExample_HasTheSettingsOfItsPreset(self):
        manifest = (_CONFIG / "launch/kubernetes/mpijob.example.yaml").read_text()
        passed = dict(re.findall(r'"-x", "(\w+)=([^"]*)"', manifest))
        preset = sourced(_CONFIG / "env/gdr.env", _CONFIG / "presets/dgx_h100.env")
        self.assertEqual(passed.pop("NCCL_SOCKET_IFNAME"), "eth0")  # of every pod
        self.assertEqual(passed, {name: preset[name] for name in preset if name not in _OF_SCRIPTS})


class ExpectedTest(unittest.TestCase):

    def setUp(self):
        self.expected = json.loads((_CONFIG / "presets" / "expected.json").read_text())

    def test_Entries_AreThePresets(self):
        self.assertEqual(sorted(self.expected), [preset.stem for preset in _PRESETS])
        for name, entry in self.expected.items():
            self.assertEqual(set(entry), {"machine", "results"}, name)
            self.assertTrue(entry["machine"], name)
            cases = [(one["collective"], one["nodes"], one["gpus_per_node"], one["bytes"]) for one in entry["results"]]
            self.assertEqual(len(cases), len(set(cases)), name)

    def test_EveryFigure_IsPositiveAndHasItsSource(self):
        for result in (result for entry in self.expected.values() for result in entry["results"]):
            with self.subTest(result["source"]):
                self.assertIn(result["collective"], ("all_reduce", "sendrecv"))
                for name in ("nodes", "gpus_per_node", "bytes", "busbw_gbs"):
                    self.assertGreater(result[name], 0)
                file = re.match(r"(docs/\S+\.md)", result["source"])
                if result["kind"] == "published":
                    self.assertRegex(result["source"], r"https://\S+|docs/\S+\.md")
                else:  # what it was derived from is in the text
                    self.assertEqual(result["kind"], "derived")
                    self.assertRegex(result["source"], r"\d")
                if file:
                    self.assertIn(str(result["busbw_gbs"]), (ROOT / file[1]).read_text())


if __name__ == "__main__":
    unittest.main()
