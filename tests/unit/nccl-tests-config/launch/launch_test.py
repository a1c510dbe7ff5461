"""The launchers: the commands that they build, and what they refuse.

Programs are fakes that print their words.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from paths import ROOT

_LAUNCH = ROOT / "nccl-tests-config" / "launch"
_LAUNCHERS = ("mpirun", "slurm.sbatch", "torchrun")
_FAKE = '#!/bin/sh\nif [ "$1" = --version ]; then echo "mpirun (Open MPI) 4.1.4"; exit; fi\n' \
        'printf "%s\\n" "${0##*/}" "$@"\n'


class LaunchTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="launch test ")  # with a space on purpose
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for library in ("libnccl-net-gdr.so", "libibverbs.so.1"):
            (self.folder / library).touch()

    def fake(self, name, text=_FAKE):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def run_it(self, launcher, *arguments, **settings):
        env = {"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(self.folder), **settings}
        return subprocess.run([str(_LAUNCH / launcher), *map(str, arguments)], env=env, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              check=False)

    def dry_run(self, launcher, *arguments, **settings):
        """The words of the printed command without `env` and the settings, and these as a dictionary."""
        done = self.run_it(launcher, "--dry-run", *arguments, **settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        words = shlex.split(done.stdout.splitlines()[-1])
        self.assertEqual(words.pop(0), "env")
        environment = {}
        while "=" in words[0] and not words[0].startswith("-"):
            name, value = words.pop(0).split("=", 1)
            environment[name] = value
        return words, environment

    def refused(self, status, text, launcher, *arguments, **settings):
        done = self.run_it(launcher, *arguments, **settings)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")


class CommandTest(LaunchTest):

    def test_Command_HasTheseWordsAndVariables(self):
        self.fake("scontrol", "#!/bin/sh\nprintf 'n1\\nn2\\n'\n")
        in_slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]"}
        plugin, ddp = {"NCCL_NET_PLUGIN": "gdr"}, ROOT / "nccl-tests-config/ddp_allreduce.py"
        # (launcher, arguments, settings, words, variables; None: not set)
        for launcher, arguments, settings, words, variables in (
                ("mpirun", "--nodes 2 --gpus 8 --host a,b --preset dgx_h100 --interface eth1", {},
                 ("mpirun -np 16 --bind-to none", "--map-by ppr:8:node", "--host a:8,b:8", "-x NCCL_IB_HCA",
                  "--mca pml ob1 --mca btl self,tcp", "btl_tcp_if_include eth1", "oob_tcp_if_include eth1",
                  f"{_LAUNCH}/rank_near_gpu all_reduce_perf -b 8 -e 8G -f 2 -g 1"), plugin),
                # The preset comes after the transport, and --set after both.
                ("mpirun", "--gpus 8 --preset roce_two_socket --set NCCL_IB_TC=0 --set 'NCCL_IB_HCA==a b,c'", {},
                 (), {**plugin, "NCCL_NET_GDR_LEVEL": "PHB", "NCCL_IB_TC": "0", "NCCL_IB_HCA": "=a b,c"}),
                ("mpirun", "--gpus 8 --transport ib", {}, (), {"NCCL_NET": "IB", "NCCL_NET_PLUGIN": None}),
                # Programs without MPI meet at the first host.
                *(("mpirun", f"--nodes 2 --gpus 1 --host a,b --program {program}", {}, (),
                   {"MASTER_ADDR": "a", "MASTER_PORT": "29500"}) for program in ("perf_rank", "nccl-gdr-burn-in")),
                ("slurm.sbatch", "--nodes 2 --gpus 8 --program perf_rank", in_slurm,
                 ("srun --nodes=2 --ntasks=16",), {"MASTER_ADDR": "n1"}),
                # No setting has a library path to leave out of the container.
                *(("slurm.sbatch", f"--gpus 8 --image x.sqsh --transport {name}", {}, ("--container-image=x.sqsh",),
                   {"LD_LIBRARY_PATH": None}) for name in ("ib", "socket")),
                ("torchrun", "--gpus 2 -- --one-host", {},
                 ("torchrun --nnodes 1 --nproc-per-node 2 --standalone", f"{ddp} --one-host"), plugin),
                ("torchrun", "--nodes 2 --gpus 8 --rendezvous node01:29400 --id x", {},
                 ("torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint node01:29400 "
                  "--rdzv-id x",), plugin),
                ("torchrun", "--nodes 2 --gpus 8", in_slurm,
                 ("srun --nodes=2 --ntasks=2 --ntasks-per-node=1", "--rdzv-endpoint n1:29400"), plugin),
                ("torchrun", "--gpus 2 --transport ib", {}, (), {"NCCL_NET": "IB", "NCCL_NET_PLUGIN": None})):
            with self.subTest(f"{launcher} {arguments}"):
                found, environment = self.dry_run(launcher, *shlex.split(arguments), **settings)
                for part in words:
                    self.assertIn(f" {part} ", f" {' '.join(found)} ")
                self.assertEqual({name: environment.get(name) for name in variables}, variables)
                if launcher == "mpirun":
                    passed = [found[i + 1] for i, word in enumerate(found) if word == "-x"]
                    self.assertEqual(sorted(passed), sorted(environment))

    def test_WrongOptions_AreUsageErrors(self):
        for launcher, arguments, text in (
                ("mpirun", "--gpus 8x", "--gpus: '8x' is not a number from 1 to 99999"),
                ("mpirun", "--gpus 0", "--gpus: '0' is not a number"),
                ("mpirun", "--gpus 8 --nodes -1", "--nodes: '-1' is not a number"),
                ("mpirun", "--gpus 8 --preset ../env/ib", "invalid choice: '../env/ib'"),
                ("mpirun", "--gpus 8 --transport softhca", "invalid choice: 'softhca'"),
                ("mpirun", "--gpus 8 --set 'NCCL IB=1'", "'NCCL IB=1' is not NAME=VALUE"),
                ("mpirun", "--gpus 8 --set NCCL_DEBUG", "'NCCL_DEBUG' is not NAME=VALUE"),
                ("mpirun", "--gpus 1 --nodes 2", "2 nodes need --hostfile or --host"),
                ("mpirun", "--gpus 1 --host a --hostfile b", "--hostfile and --host exclude each other"),
                ("mpirun", "--gpus 1 --host a:8,b:8", "--host needs names alone"),
                ("slurm.sbatch", "--gpus 1 --mounts a:b", "--mounts needs --image"),
                ("slurm.sbatch", "--gpus 1 --plugin-in-image", "--plugin-in-image needs --image"),
                ("slurm.sbatch", "--gpus 1 --image i --preset one_host_softhca", "not for a container"),
                ("slurm.sbatch", "--gpus 1 --sbatch gpu", "'gpu' is not an option of sbatch"),
                ("torchrun", "--gpus 1 --nodes 2", "2 nodes need --rendezvous"),
                ("torchrun", "--gpus 1 --rendezvous node01", "--rendezvous needs HOST:PORT, not 'node01'"),
                *((launcher, "--gpus 8 --gpu 8", "unrecognized arguments: --gpu 8") for launcher in _LAUNCHERS),
                *((launcher, "", "required: --gpus") for launcher in _LAUNCHERS),
                ("rank_near_gpu", "true", "start this by mpirun or srun"), ("rank_near_gpu", "", "no program given"),
                ("perf_rank", "", "start this by mpirun or srun")):
            with self.subTest(f"{launcher} {arguments}"):
                self.refused(2, text, launcher, *shlex.split(arguments))
        for launcher in ("rank_near_gpu", "perf_rank"):
            done = self.run_it(launcher, "--help")
            self.assertEqual((done.returncode, done.stdout[:7]), (0, "usage: "), launcher)

    def test_WhatIsMissing_IsNamedWithTheFix(self):
        hosts = self.folder / "hosts"
        hosts.write_text("# two\nnode01 slots=8\n\nnode02 slots = 4 # half\n")
        self.dry_run("mpirun", "--nodes", 2, "--gpus", 4, "--hostfile", hosts)
        self.fake("sbatch")
        self.fake("srun", "#!/bin/sh\necho no such options\n")
        self.fake("scontrol", "#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
        in_slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1"}
        tools = self.folder / "tools"  # without scontrol
        tools.mkdir()
        (tools / "python3").symlink_to(shutil.which("python3"))
        of_nodes = {**in_slurm, "SLURM_JOB_NODELIST": "n[1-2]"}
        unanswered = "scontrol does not name the nodes of the job, n[1-2]: Unable to contact slurm controller\n"
        mpirun = ("mpirun", "--gpus", 1, "--plugin-dir", self.folder)
        # (a fake mpirun, launcher and arguments, settings, text)
        for fake, words, settings, text in (
                (None, (*mpirun, "--host", "a", "--nodes", 2), {}, "--host has 1 hosts, and --nodes is 2"),
                (None, (*mpirun, "--gpus", 8, "--hostfile", hosts), {}, "node02 has 4 slots"),
                (None, (*mpirun, "--nodes", 3, "--hostfile", hosts), {}, "has 2 hosts, and --nodes is 3"),
                (None, (*mpirun, "--hostfile", "hosts2"), {}, "hosts2 cannot be read"),
                (None, (*mpirun, "--hostfile", hosts), {}, "has no address"),
                ("#!/bin/sh\necho HYDRA build details\n", mpirun, {}, "is not Open MPI's"),
                (_FAKE, mpirun, {}, "nccl-tests-config, PATH (NCCL_TESTS_DIR is not set). To get it: git clone"),
                (_FAKE, [*mpirun, "--program", "nope"], {}, "nccl-tests-config, PATH. Fix: give its path"),
                (_FAKE, (*mpirun, "--program", "true", "--preset", "one_host_softhca"), {"SOFTHCA_DIR": "/absent"},
                 "there is no libibverbs.so.1 of the software HCA in /absent"),
                (_FAKE, (*mpirun, "--program", "true", "--plugin-dir", "/absent"), {},
                 "there is no libnccl-net-gdr.so in /absent"),
                (None, ("slurm.sbatch", "--gpus", 1), {}, "all_reduce_perf was not found"),
                (None, ("slurm.sbatch", "--gpus", 1), {"GDR_LAUNCH_DIR": "/absent"}, "Fix: set GDR_LAUNCH_DIR"),
                (None, ("slurm.sbatch", "--gpus", 1, "--nodes", 2), in_slurm, "the job has 1 nodes, and --nodes is 2"),
                (None, ("slurm.sbatch", "--gpus", 1, "--image", "i"), in_slurm, "Fix: install pyxis and enroot"),
                (None, mpirun, of_nodes, unanswered),
                (None, mpirun, {**of_nodes, "PATH": str(tools)}, "nodes of the job, n[1-2]: [Errno 2] No such"),
                (None, ("torchrun", "--gpus", 1, "--nodes", 2), of_nodes, unanswered),
                (None, ("slurm.sbatch", "--gpus", 1, "--program", "perf_rank", "--transport", "ib"), of_nodes, unanswered),
                # A program with MPI needs no place to meet.
                (None, ("slurm.sbatch", "--gpus", 1, "--transport", "ib"), of_nodes, "all_reduce_perf was not found"),
                (None, ("torchrun", "--gpus", 1, "--program", "absent.py"), {}, "the script absent.py cannot be read"),
                (None, ("torchrun", "--gpus", 1), {}, "torchrun was not found. Fix: install PyTorch")):
            with self.subTest(text):
                if fake:
                    self.fake("mpirun", fake)
                self.refused(3, text, *words, **settings)

    def test_ExamplesOfTheDocuments_AreAccepted(self):
        (self.folder / "hosts").write_text("node01 slots=8\nnode02 slots=8\n")
        examples = []
        examples += re.findall(r"^(?:nccl-tests-config/)?launch/(\S+)((?: --.*\\\n)*.*)$",
                               (_LAUNCH.parent / "README.md").read_text(), re.MULTILINE)
        for launcher in _LAUNCHERS:
            text = self.run_it(launcher, "--help").stdout
            examples += re.findall(r"^  launch/(\S+)(.*)$", text, re.MULTILINE)
        self.assertGreaterEqual(len(examples), 12)
        for launcher, text in examples:
            words = shlex.split(text.replace("\\\n", " ").split("|")[0])
            with self.subTest(f"{launcher} {words}"):
                done = self.run_it(launcher, "--dry-run", *words, SOFTHCA_DIR="/softhca")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"mpirun|srun|torchrun")


class LibrariesTest(LaunchTest):
    """How the plugin and the software HCA are found; the launchers are copies in an installed tree."""

    def setUp(self):
        super().setUp()
        self.prefix = self.folder / "prefix"
        config = self.prefix / "share" / "nccl-net-gdr" / "nccl-tests-config"
        for name in ("env", "presets", "launch", "comparelib"):
            shutil.copytree(ROOT / "nccl-tests-config" / name, config / name)
        self.launch = config / "launch"
        self.fake("mpirun")
        self.fake("all_reduce_perf")
        self.fake("ldconfig", "#!/bin/sh\n")

    def run_it(self, launcher, *arguments, **settings):
        return super().run_it(self.launch / launcher, *arguments, **settings)

    def plugin(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "libnccl-net-gdr.so").touch()
        return folder

    def test_Plugin_OfAPrefix_IsFoundBesideTheLaunchers(self):
        self.refused(3, "or name its folder by --plugin-dir\n", "mpirun", "--gpus", 1)
        for folder in ("lib/x86_64-linux-gnu", "lib"):
            where = self.plugin(self.prefix / folder)
            done = self.run_it("mpirun", "--gpus", 1)
            self.assertEqual(done.returncode, 0, done.stderr)
            _, environment = self.dry_run("mpirun", "--gpus", 1)
            self.assertEqual(environment["LD_LIBRARY_PATH"], str(where))

    def test_Plugin_InTheLibraryPathOrTheCache_IsFound(self):
        where = self.plugin(self.folder / "somewhere")
        done = self.run_it("mpirun", "--gpus", 1, LD_LIBRARY_PATH=f"/absent:{where}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.fake("ldconfig", "#!/bin/sh\nprintf '2 libs found\\n\\tlibnccl-net-gdr.so (libc6,x86-64) => "
                  f"{where}/libnccl-net-gdr.so\\n'\n")
        done = self.run_it("mpirun", "--gpus", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(3, "there is no libnccl-net-gdr.so in /absent", "mpirun", "--gpus", 1,
                     "--plugin-dir", "/absent")

    def test_InstalledPlugin_IsMountedIntoTheContainer(self):
        job = ("slurm.sbatch", "--gpus", 1, "--image", "i")
        inside = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1"}
        self.fake("srun", "#!/bin/sh\necho --container-image; echo \"$@\"\n")
        self.refused(3, "where the image has the package, --plugin-in-image", *job, **inside)
        where = self.plugin(self.folder / "somewhere")
        self.fake("ldconfig", "#!/bin/sh\nprintf '\\tlibnccl-net-gdr.so (libc6,x86-64) => "
                  f"{where}/libnccl-net-gdr.so\\n'\n")
        done = self.run_it(*job, **inside)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f",{where}/libnccl-net-gdr.so:/nccl-net-gdr/lib/libnccl-net-gdr.so:ro", done.stdout)
        words, environment = self.dry_run(*job, "--plugin-in-image")
        self.assertNotIn("libnccl-net-gdr.so", " ".join(words))
        self.assertEqual(environment["NCCL_NET_PLUGIN"], "gdr")

    def test_MissingSoftwareHca_EndsWithTheFix(self):
        self.plugin(self.prefix / "lib")
        job = ("mpirun", "--gpus", 1, "--preset", "one_host_softhca")
        for settings in ({}, {"SOFTHCA_DIR": ""}):
            self.refused(3, "there is no software HCA on this machine: build it", *job, **settings)
        self.fake("nccl-gdr", "#!/bin/sh\nexit 125\n")
        self.refused(3, "there is no software HCA on this machine", *job)
        self.fake("nccl-gdr", f"#!/bin/sh\necho '{self.folder}'\n")
        self.assertEqual(self.run_it(*job).returncode, 0)


class MpirunTest(LaunchTest):

    def test_PrintedCommand_IsTheOneThatRuns(self):
        self.fake("mpirun")
        program = self.fake("sendrecv_perf")
        arguments = ["--gpus", 2, "--program", program, "--plugin-dir", self.folder, "--", "-e", "1 M"]
        done = self.run_it("mpirun", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        ran = done.stdout.splitlines()
        shown = shlex.split(done.stderr)
        self.assertEqual(ran[-3:], [str(program), "-e", "1 M"])
        self.assertEqual(shown[-len(ran) + 1:], ran[1:])
        self.assertEqual(shown[-len(ran)], str(self.folder / "mpirun"))

    def test_Example_OfAHostfile_Fits(self):
        self.dry_run("mpirun", "--nodes", 2, "--gpus", 8, "--hostfile",
                     ROOT / "nccl-tests-config" / "hostfile.example")

    def test_LaunchFolderInThePath_DoesNotStartItself(self):
        tools = self.folder / "tools"  # what the launcher needs, without any mpirun
        tools.mkdir()
        for name in ("bash", "dirname", "grep", "env", "python3"):
            (tools / name).symlink_to(shutil.which(name))
        self.refused(3, "mpirun was not found. Fix: install Open MPI", "mpirun", "--gpus", 1,
                     PATH=f"{_LAUNCH}:{tools}")


class SlurmTest(LaunchTest):

    def test_DryRun_ShowsSubmissionAndJob(self):
        done = self.run_it("slurm.sbatch", "--nodes", 2, "--gpus", 8, "--sbatch", "--partition=gpu",
                           "--dry-run", "--", "-e", "1G")
        submission, job = [shlex.split(line) for line in done.stdout.splitlines()]
        self.assertEqual(submission[:3], ["sbatch", "--nodes=2", "--ntasks-per-node=8"])
        self.assertLess(submission.index("--gpus-per-node=8"), submission.index("--partition=gpu"))
        self.assertEqual(submission[-9:], [str(_LAUNCH / "slurm.sbatch"), "--nodes", "2", "--gpus", "8",
                                           "--sbatch=--partition=gpu", "--", "-e", "1G"])
        self.assertNotIn("--dry-run", submission)
        start = job.index("srun")
        self.assertEqual(job[start:], ["srun", "--nodes=2", "--ntasks=16", "--ntasks-per-node=8",
                                       "--mpi=pmix", "--cpu-bind=none", "--kill-on-bad-exit=1",
                                       str(_LAUNCH / "rank_near_gpu"), "all_reduce_perf", "-e", "1G"])

    def test_Container_MountsTheLaunchersAndThePlugin(self):
        words, environment = self.dry_run(
            "slurm.sbatch", "--gpus", 8, "--image", "nvcr.io#nvidia/pytorch:25.02-py3", "--mounts",
            "/d:/d", "--plugin-dir", self.folder, "--program", "all_reduce_perf_mpi",
            LD_LIBRARY_PATH="/of/the/host")
        self.assertIn("--container-image=nvcr.io#nvidia/pytorch:25.02-py3", words)
        mounts = next(word for word in words if word.startswith("--container-mounts=")).split("=", 1)[1]
        self.assertEqual(mounts.split(","), [f"{_LAUNCH}:/nccl-net-gdr/launch:ro", "/d:/d",
                                             f"{self.folder}:/nccl-net-gdr/lib:ro"])
        self.assertEqual(environment["NCCL_NET_PLUGIN"], "/nccl-net-gdr/lib/libnccl-net-gdr.so")
        self.assertEqual(environment["LD_LIBRARY_PATH"], "/of/the/host")  # without the plugin's folder
        self.assertIn("--container-env=NCCL_NET,NCCL_NET_PLUGIN", words)
        self.assertIn("/nccl-net-gdr/launch/rank_near_gpu", words)

    def test_JobFromSlurmsCopy_FindsTheLaunchersDespiteSlashesInItsArguments(self):
        copy = self.fake("slurm_script", (_LAUNCH / "slurm.sbatch").read_text())
        for arguments in ("", " --nodes 1 --gpus 3", " --program /opt/x --image a/b:c"):
            self.fake("scontrol", f"#!/bin/sh\necho 'JobId=7'\necho '   Command={_LAUNCH}/slurm.sbatch{arguments}'\n")
            env = {"PATH": f"{self.folder}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1"}
            done = subprocess.run([str(copy), "--gpus", "3", "--dry-run"], env=env, capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(" --ntasks=3 ", done.stdout)
            self.assertIn(f"{_LAUNCH}/rank_near_gpu", done.stdout)


class RankNearGpuTest(LaunchTest):

    def machine(self, *devices):
        """A folder like /sys/bus/pci/devices: (address, vendor, class, local CPUs)."""
        for address, vendor, kind, cpus in devices:
            (self.folder / "pci" / address).mkdir(parents=True)
            for name, text in {"vendor": vendor, "class": kind, "local_cpulist": cpus}.items():
                (self.folder / "pci" / address / name).write_text(text + "\n")
        (self.folder / "pci").mkdir(exist_ok=True)

    def bound(self, rank, **settings):
        """The CPUs to which the rank is bound, as taskset is given them, or the reason why it is not."""
        self.fake("taskset", '#!/bin/sh\necho "$2"\n')
        done = self.run_it("rank_near_gpu", "sh", "-c", "echo ran", OMPI_COMM_WORLD_LOCAL_RANK=str(rank),
                           RANK_NEAR_GPU_DEVICES=str(self.folder / "pci"), **settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip() if not done.stderr else (done.stdout.strip(), done.stderr)

    def test_Rank_GetsTheCpusOfItsGpu(self):
        self.machine(("0000:18:00.0", "0x15b3", "0x020700", "0-3"),
                     ("0000:1b:00.0", "0x10de", "0x030200", "0-3"),
                     ("0000:1c:00.0", "0x10de", "0x068000", "8-9"),  # an NVSwitch
                     ("0000:9d:00.0", "0x10de", "0x030200", "4-7"))
        self.assertEqual([self.bound(rank) for rank in range(3)], ["0-3", "4-7", "0-3"])
        self.assertEqual(self.bound(0, CUDA_VISIBLE_DEVICES="1"), "4-7")
        self.assertEqual(self.bound(1, CUDA_VISIBLE_DEVICES="1,0"), "0-3")
        self.assertEqual(self.bound(0, CUDA_VISIBLE_DEVICES="0", SLURM_STEP_GPUS="1"), "4-7")

    def test_UnknownGpu_RunsUnbound(self):
        self.machine(("0000:18:00.0", "0x15b3", "0x020700", "0-3"))
        out, err = self.bound(0)
        self.assertEqual(out, "ran")
        self.assertIn("this node has no NVIDIA GPU", err)
        self.machine(("0000:1b:00.0", "0x10de", "0x030200", "0-3"))
        out, err = self.bound(0, CUDA_VISIBLE_DEVICES="GPU-1234")
        self.assertEqual(out, "ran")
        self.assertIn("runs unbound: its GPU has no number in 'GPU-1234'", err)


if __name__ == "__main__":
    unittest.main()
