"""The blocks of docs/health-checks.md: each is taken from the page and run.

CTest sets GDR_TOOL to the tool that was built. Slurm, promtool and NHC are used where they are installed.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import one_node_slurm

_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
_PAGE = (_DOCS / "health-checks.md").read_text()
_DASHBOARD = (_DOCS / "grafana" / "nccl-gdr.json").read_text()
_HANGS = "hangs"

# What Prometheus stores of four nodes: a good one, one with a failure, one without the doctor's file, one with an old file.
_RULE_TEST = """\
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series:
  - {series: 'up{job="node", instance="good"}', values: '1x120'}
  - {series: 'up{job="node", instance="fails"}', values: '1x120'}
  - {series: 'up{job="node", instance="missing"}', values: '1x120'}
  - {series: 'nccl_gdr_doctor_info{instance="good"}', values: '1x120'}
  - {series: 'nccl_gdr_doctor_info{instance="fails"}', values: '1x120'}
  - {series: 'nccl_gdr_doctor_check_status{instance="good", check="rails", cost="halves"}', values: '1x120'}
  - {series: 'nccl_gdr_doctor_check_status{instance="fails", check="rails", cost="halves"}', values: '2x120'}
  - {series: 'node_textfile_mtime_seconds{instance="old", file="/a/nccl_gdr_doctor.prom"}', values: '0x120'}
  - {series: 'nccl_gdr_doctor_port_events_total{instance="good", counter="link_downed"}', values: '200x60 201x60'}
  - {series: 'nccl_gdr_doctor_port_events_total{instance="flaps", counter="link_downed"}', values: '200+1x120'}
  - {series: 'nccl_gdr_doctor_port_events_total{instance="carrier", counter="carrier_changes"}', values: '1+1x120'}
  - {series: 'nccl_gdr_recoveries_total{instance="good", device="mlx5_0", port="1"}', values: '0x110 1x10'}
  alert_rule_test:
"""
_EXPECTED = {("GpuNetworkFails", "60m"): ["fails"], ("GpuNetworkUnknown", "60m"): ["missing"],
             ("GpuNetworkOutdated", "60m"): ["old"],
             ("GpuNetworkLinkFlaps", "60m"): ["carrier", "flaps"],
             ("GpuRailLost", "60m"): [], ("GpuRailLost", "115m"): ["good"]}


def block(language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"{len(found)} blocks of {language}"
    return found[0]


class HealthChecks(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="health-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        self.programs = self.folder / "bin"
        self.programs.mkdir()
        self.write("logger", f"cat > {self.folder}/logged")

    def write(self, name, text):
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def doctor(self, status):
        """A doctor in the place of ours, which ends with `status`."""
        self.write("nccl-gdr", "sleep 60" if status == _HANGS else f"echo doctor: $*\nexit {status}")

    def here(self, text):
        """A script with this test's programs first, and less patience."""
        self.assertIn("timeout 20 ", text)
        return text.replace("timeout 20 ", "timeout 1 ").replace("PATH=/usr/bin", f"PATH={self.programs}:/usr/bin")

    def run_here(self, command):
        return subprocess.run(command, env={**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"}, timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode

    def prolog(self):
        path = self.folder / "prolog"
        path.write_text(self.here(block("sh")))
        path.chmod(0o755)
        return path

    def test_EveryCommand_IsOneThatTheDoctorTakes(self):
        commands = re.findall(r"nccl-gdr (doctor (?:--check [\w,-]+|--prometheus))", _PAGE)
        rule = json.loads(block("json"))["rules"][0]
        self.assertEqual(rule["path"], "/usr/bin/nccl-gdr")
        for command in {*commands, " ".join(rule["args"])}:
            with self.subTest(command):
                done = subprocess.run([os.environ["GDR_TOOL"], *command.split()], capture_output=True, text=True,
                                      check=False)
                self.assertIn(done.returncode, (0, 1, 3), done.stderr)

    def test_EveryMetricOfThePageAndTheDashboard_IsPrinted(self):
        printed = subprocess.run([os.environ["GDR_TOOL"], "doctor", "--prometheus"], capture_output=True, text=True,
                                 check=False).stdout
        for text in (_PAGE, _DASHBOARD):
            names = set(re.findall(r"nccl_gdr_doctor_[a-z_]*[a-z](?![a-z_.]*prom)", text))
            self.assertTrue(names)
            for name in names:
                self.assertIn(f"# TYPE {name} ", printed)

    def test_Prolog_FailsWhereTheDoctorFailsOrHangs(self):
        prolog = self.prolog()
        for status, expected in ((0, 0), (1, 1), (2, 0), (3, 0), (_HANGS, 1)):
            with self.subTest(status):
                (self.folder / "logged").unlink(missing_ok=True)
                self.doctor(status)
                self.assertEqual(self.run_here([str(prolog)]), expected)
                self.assertEqual((self.folder / "logged").exists(), expected == 1)

    def test_InitContainer_FailsWhereTheDoctorFailsOrHangs(self):
        command = json.loads(re.search(r"command: (\[.*\])", self.here(block("yaml")))[1])
        for status, expected in ((0, 0), (1, 1), (2, 0), (3, 0), (_HANGS, 1)):
            with self.subTest(status):
                self.doctor(status)
                self.assertEqual(self.run_here(command), expected)

    def test_CronLine_KeepsTheOldFileWhereTheDoctorCouldNotLook(self):
        self.assertIn("timeout 60 ", block("cron"))
        schedule, command = re.fullmatch(r"(\S+ \S+ \S+ \S+ \S+) root (.*)\n", block("cron")).groups()
        self.assertEqual(schedule, "*/5 * * * *")
        metrics, precious = self.folder / "nccl_gdr_doctor.prom", self.folder / "precious"
        precious.write_text("precious")
        (self.folder / ".doctor").symlink_to(precious)  # by a user, where all may write
        for status, replaced in ((0, True), (1, True), (2, False), (3, False)):
            with self.subTest(status):
                metrics.write_text("old")
                self.doctor(status)
                self.run_here(["sh", "-c", command.replace("/var/lib/node_exporter/textfile", str(self.folder))])
                self.assertEqual(metrics.read_text(), "doctor: doctor --prometheus\n" if replaced else "old")
                self.assertEqual((metrics.stat().st_mode & 0o777, [*self.folder.glob(".doctor.*")]), (0o644, []))
        self.assertEqual(precious.read_text(), "precious")

    def test_Slurm_DrainsTheNodeWhoseDoctorFails(self):
        if reason := one_node_slurm.why_not():
            self.skipTest(reason)
        self.doctor(0)
        state = self.folder / "slurm"
        state.mkdir()
        with one_node_slurm.OneNodeSlurm(state, cpus=1, more=f"Prolog={self.prolog()}") as slurm:
            job = ["env", f"SLURM_CONF={slurm.environment['SLURM_CONF']}", "srun", "--immediate=20", "true"]
            self.assertEqual(self.run_here(job), 0)
            self.doctor(1)
            self.assertNotEqual(self.run_here(job), 0)
            deadline = time.monotonic() + 30
            while not slurm.state().startswith("drain") and time.monotonic() < deadline:
                time.sleep(0.2)
            self.assertTrue(slurm.state().startswith("drain"), slurm.state())
            self.assertIn("doctor --check rdma-devices", (self.folder / "logged").read_text())

    def test_Promtool_RaisesTheAlertsOfTheNodes(self):
        (self.folder / "rules.yml").write_text(block("prometheus"))
        # One test for each alert and instance: what is asked is whether it is raised, not how its text is filled in.
        rules = _RULE_TEST.replace("  alert_rule_test:\n", "  promql_expr_test:\n")
        for (alert, at), instances in _EXPECTED.items():
            rules += (f"  - {{eval_time: {at}, expr: 'count by (instance) (ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}})',"
                      f" exp_samples: [{', '.join(self.sample(one) for one in instances)}]}}\n")
        (self.folder / "test.yml").write_text(rules)
        self.promtool("test", "rules", "test.yml")

    def test_Promtool_ReadsTheExpressionsOfTheDashboard(self):
        rules = [{"record": f"panel{panel['id']}", "expr": target["expr"].replace("$__rate_interval", "1m")}
                 for panel in json.loads(_DASHBOARD)["panels"] for target in panel["targets"]]
        (self.folder / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
        self.promtool("check", "rules", "rules.yml")

    def promtool(self, *words):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed (prometheus)")
        done = subprocess.run(["promtool", *words], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @staticmethod
    def sample(instance):
        return f"{{labels: '{{instance=\"{instance}\"}}', value: 1}}"

    def test_Nhc_PassesAndFailsWithTheDoctor(self):
        if shutil.which("nhc") is None:
            self.skipTest("nhc is not installed (https://github.com/mej/nhc)")
        configuration = self.folder / "nhc.conf"
        configuration.write_text(f"* || export MARK_OFFLINE=0\n* || export PATH={self.programs}:$PATH\n{block('nhc')}")
        for status in (0, 1, 3):
            with self.subTest(status):
                self.doctor(status)
                done = self.run_here(["nhc", "-c", str(configuration), "-l", str(self.folder / "nhc.log")])
                self.assertEqual(done == 0, status == 0, (self.folder / "nhc.log").read_text())


if __name__ == "__main__":
    unittest.main()
