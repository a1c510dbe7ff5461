"""The manifests that launch/kubernetes/mpijob prints."""

import importlib.util
import pathlib
import subprocess
import unittest

from paths import ROOT

_FOLDER = ROOT / "nccl-tests-config" / "launch" / "kubernetes"
_JOB = ("--nodes", "2", "--gpus", "8", "--image", "registry.example/nccl-tests:latest")
_CAN_VALIDATE = all(importlib.util.find_spec(name) for name in ("yaml", "jsonschema"))


def mpijob(*arguments, **settings):
    return subprocess.run([str(_FOLDER / "mpijob"), *arguments], stdin=subprocess.DEVNULL,
                          env={"PATH": "/usr/bin:/bin", **settings}, capture_output=True, text=True,
                          timeout=60, check=False)


class ManifestTest(unittest.TestCase):

    def manifest(self, *arguments, **settings):
        done = mpijob(*_JOB, *arguments, **settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_Example_IsWhatTheLauncherPrints(self):
        self.assertEqual(self.manifest("--preset", "dgx_h100"),
                         (_FOLDER / "mpijob.example.yaml").read_text())

    def test_BadOptions_AreUsageErrors(self):
        for arguments, text in {
                ("--image", ""): "--image is missing",
                ("--name", "Big"): "--name needs at most 40 lower-case letters",
                ("--name", "2nodes"): "a letter first, not '2nodes'",
                ("--name", "n" * 41): "--name needs at most 40",
                ("--namespace", "n" * 64): "--namespace needs at most 63",
                ("--namespace", "Ml"): "--namespace needs at most 63",
                ("--rdma", "hca"): "--rdma needs NAME=COUNT",
                ("--shm", "16GB"): "--shm needs a size such as 16Gi, not '16GB'",
                ("--preset", "one_host_softhca"): "not for a cluster",
                ("--preset", "none"): "there is no preset"}.items():
            with self.subTest(arguments):
                done = mpijob(*_JOB, *arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(text, done.stderr)

    def test_LongestNames_AreAccepted(self):
        text = self.manifest("--name", "n" * 40, "--namespace", "2" * 63)
        self.assertIn(f"namespace: {'2' * 63}", text.replace('"', ""))

    def test_SettingsOfTheCaller_AreNotTheJobs(self):
        text = self.manifest(NCCL_IB_HCA="mlx5_7", LD_LIBRARY_PATH="/here", NCCL_DEBUG="TRACE")
        for leaked in ("mlx5_7", "/here", "TRACE"):
            self.assertNotIn(leaked, text)

        done = mpijob(*_JOB, NCCL_IB_HCA="mlx5_7", LD_LIBRARY_PATH="/here", NCCL_DEBUG="TRACE")
        self.assertEqual(done.stderr, "launch/kubernetes/mpijob: NCCL_DEBUG NCCL_IB_HCA of this shell are not in "
                         "the job. To set them there: --set NAME=VALUE\n")
        self.assertEqual(mpijob(*_JOB, LD_LIBRARY_PATH="/here").stderr, "")

    @unittest.skipUnless(_CAN_VALIDATE, "python3-yaml and python3-jsonschema are not installed")
    def test_Manifests_FollowTheSchema(self):
        import validate_manifest
        schema = validate_manifest.load_schema((ROOT / "tests/launch/mpijob.schema.json").read_text())
        folder = ROOT / "nccl-tests-config" / "presets"
        presets = [("--preset", path.stem) for path in folder.glob("*.env") if "one_host" not in path.stem]
        others = [("--namespace", "ml", "--networks", "a,b", "--rdma", "rdma/ib=1", "--rdma", "x.y/vf=8"),
                  ("--set", 'NCCL_DEBUG_FILE=/tmp/%h "x" \\ $(A)\nb', "--", "-e", "1G", "# none", "yes")]
        for arguments in (*presets, *others):
            with self.subTest(arguments):
                self.assertEqual(list(validate_manifest.findings(schema, self.manifest(*arguments))), [])
        broken = self.manifest().replace("slotsPerWorker: 8", "slotsPerWorkers: 8")
        self.assertEqual(len(list(validate_manifest.findings(schema, broken))), 1)

    @unittest.skipUnless(_CAN_VALIDATE, "python3-yaml and python3-jsonschema are not installed")
    def test_Arguments_ReachMpirunAsGiven(self):
        import yaml
        odd = '/tmp/%h "x" \\ $(A)\nb'
        job = yaml.safe_load(self.manifest("--set", f"NCCL_DEBUG_FILE={odd}", "--plugin-dir", "/plugins",
                                           "--", "-e", "1G", "yes"))
        launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
        # Kubernetes reads $$ as $.
        self.assertIn("NCCL_DEBUG_FILE=" + odd.replace("$(", "$$("), launcher["args"])
        self.assertIn("NCCL_NET_PLUGIN=/plugins/libnccl-net-gdr.so", launcher["args"])
        self.assertEqual(launcher["args"][-4:], ["all_reduce_perf", "-e", "1G", "yes"])
        self.assertEqual(launcher["args"][launcher["args"].index("-np") + 1], "16")

    @unittest.skipUnless(_CAN_VALIDATE, "python3-yaml and python3-jsonschema are not installed")
    def test_Worker_HasWhatRdmaNeeds(self):
        import yaml
        job = yaml.safe_load(self.manifest("--preset", "azure_ndv5", "--rdma", "rdma/ib=1"))
        pod = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
        worker = pod["containers"][0]
        self.assertEqual(worker["securityContext"], {"capabilities": {"add": ["IPC_LOCK"]}})
        self.assertEqual(worker["resources"]["limits"],
                         {"cpu": 32, "memory": "64Gi", "nvidia.com/gpu": 8, "rdma/ib": 1})
        mounted = [one["mountPath"] for one in worker["volumeMounts"]]
        self.assertEqual(mounted[0], "/dev/shm")
        self.assertTrue(mounted[1].endswith("microsoft/ndv5-topo.xml"), mounted)
        self.assertEqual({one["name"] for one in pod["volumes"]}, {"shm", "topology"})


if __name__ == "__main__":
    unittest.main()
