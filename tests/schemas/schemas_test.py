"""The output of `topo --json` and `doctor --json` has the form that docs/*.schema.json describe.

The schemas are read more strictly than JSON Schema asks for: an object has all keys that its schema
describes, and no other. CTest sets GDR_TOOL to the nccl-gdr that was built.
"""

import copy
import functools
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_MACHINES = sorted((_ROOT / "tests/topologies").rglob("*.xml"))


def closed(schema):
    """The schema in which each object has all keys that it describes, and no other."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    if isinstance(result.get("properties"), dict):
        result["required"] = list(result["properties"])
        result.setdefault("additionalProperties", False)
    return result


@functools.lru_cache
def validator_of(name):
    schema = json.loads((_ROOT / "docs" / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(closed(schema))


def violations(name, document):
    """What is wrong, each with its place: "gpus/0/model: 7 is not of type 'string'"."""
    return ["/".join(map(str, error.absolute_path)) + ": " + error.message[:200]
            for error in validator_of(name).iter_errors(document)]


def output(*arguments, **settings):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("NCCL_", "GDR_NCCL_"))}
    return subprocess.run([os.environ["GDR_TOOL"], *map(str, arguments), "--json"], check=False,
                          env=environment | settings, capture_output=True, text=True).stdout


def topology(machine, **settings):
    return json.loads(output("topo", "--from", machine, **settings))


def put(document, place, value):
    """A copy of the document with another value there, or without the key where it is Ellipsis."""
    changed = copy.deepcopy(document)
    *way, key = place
    parent = functools.reduce(lambda node, step: node[step], way, changed)
    if value is ...:
        del parent[key]
    else:
        parent[key] = value
    return changed


@unittest.skipIf(jsonschema is None, "the package python3-jsonschema is not installed")
class Schemas(unittest.TestCase):
    maxDiff = None

    def test_Topo_OfEveryMachine_IsOfTheSchema(self):
        for machine in _MACHINES:
            with self.subTest(machine=machine.name):
                self.assertEqual(violations("topo", topology(machine)), [])

    def test_Topo_WithSettings_IsOfTheSchema(self):
        decided = topology(_ROOT / "tests/topologies/nccl-dgx-a100.xml", NCCL_NET_GDR_LEVEL="PIX",
                           NCCL_NET_GDR_READ="1", NCCL_NET_GDR_C2C="1", NCCL_P2P_LEVEL="LOC",
                           NCCL_NETDEVS_POLICY="MAX:2")
        self.assertEqual(violations("topo", decided), [])
        self.assertEqual(decided["nccl"]["settings"]["netdevs_policy"], "MAX:2")

    def test_Topo_ThatDiffersFromTheSchema_IsFound(self):
        good = topology(_ROOT / "tests/topologies/hwloc-dgx-h100.xml")
        for place, value, violation in (
                (("schema_version",), 0, "schema_version: "),
                (("gpus", 1, "vendor"), "10de", "gpus/1/vendor: '10de' does not match"),
                (("gpus", 1, "model"), 7, "gpus/1/model: 7 is not of type"),
                (("paths", "gpu_hca", "class", 0, 1), "NEAR", "class/0/1: 'NEAR' is not one of"),
                (("nccl", "gpus", 0, "to_devices", 1, "send", "hops"), 0, "send/hops: 0 is less"),
                (("hcas", 0, "extra"), None, "hcas/0: Additional properties"),
                (("gpus", 0, "rails"), ..., "gpus/0: 'rails' is a required property")):
            with self.subTest(place=place):
                found = violations("topo", put(good, place, value))
                self.assertTrue(any(violation in one for one in found), found)

    def report_of(self, *folders, root=None, files=None):
        """The doctor's report on a machine that has these folders and files, or on `root`."""
        with tempfile.TemporaryDirectory() as made:
            for folder in folders:
                (pathlib.Path(made) / folder).mkdir(parents=True)
            for file, text in (files or {}).items():
                (pathlib.Path(made) / file).write_text(text, encoding="utf-8")
            return json.loads(output("doctor", "--root", root or made))

    def test_Doctor_OfMachines_IsOfTheSchema(self):
        hca = "sys/bus/pci/devices/0000:3b:00.0"
        without_driver = self.report_of("proc", "dev", "sys/class", "sys/module", hca, files={
            f"{hca}/vendor": "0x15b3\n", f"{hca}/device": "0x1021\n", f"{hca}/class": "0x020700\n"})
        for report in (self.report_of(root="/"), self.report_of("proc"), without_driver):
            self.assertEqual(violations("doctor", report), [])
        steps = [step for check in without_driver["checks"] for one in check["observations"]
                 for step in one["steps"]]
        self.assertEqual(steps, [{"command": "modprobe mlx5_core"}])

    def test_Doctor_OtherVerdict_IsNotOfTheSchema(self):
        found = violations("doctor", put(self.report_of("proc"), ("checks", 0, "verdict"), "fine"))
        self.assertEqual(len(found), 1, found)
        self.assertIn("checks/0/verdict: 'fine' is not one of", found[0])


if __name__ == "__main__":
    unittest.main()
