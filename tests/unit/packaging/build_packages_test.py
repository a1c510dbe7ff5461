"""The version that packaging/build_packages gives the packages, and what it refuses. cmake and cpack are fakes."""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from paths import ROOT

_CMAKE = """#!/bin/sh
printf "%s\\n" "$*" >>"$LOG"
if [ "$1" = --install ]; then mkdir -p "$4/bin"; echo b >"$4/bin/b"; echo a >"$4/a"; chmod 700 "$4/bin/b"; fi
"""
_CPACK = '#!/bin/sh\nmkdir -p build-package/packages; touch build-package/packages/nccl-net-gdr_a.deb\n'


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class BuildPackagesTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="build packages ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tree, self.tools = self.folder / "tree", self.folder / "tools"
        (self.tree / "packaging").mkdir(parents=True)
        shutil.copy(ROOT / "packaging" / "build_packages", self.tree / "packaging")
        shutil.copy(ROOT / "CMakeLists.txt", self.tree)
        (self.tree / ".gitignore").write_text("/build*/\n")
        self.tools.mkdir()
        for name, text in {"cmake": _CMAKE, "cpack": _CPACK, "help2man": "#!/bin/sh\n", "file": "#!/bin/sh\n",
                           "dpkg-shlibdeps": "#!/bin/sh\n",
                           "dpkg-architecture": "#!/bin/sh\necho any\n"}.items():
            self.tool(name, text)

    def tool(self, name, text):
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    def environment(self, **settings):
        return {"PATH": f"{self.tools}:{os.environ['PATH']}", "HOME": str(self.folder), "LOG": str(self.folder / "log"),
                "GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": str(self.folder), **settings}

    def git(self, *words, time="1700000000"):
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        subprocess.run(["git", *who, *words], cwd=self.tree, check=True, capture_output=True,
                       env=self.environment(GIT_COMMITTER_DATE=f"{time} +0000", GIT_AUTHOR_DATE=f"{time} +0000"))

    def commit(self, time):
        if not (self.tree / ".git").exists():
            self.git("init", "-q")
            self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", "m", time=time)

    def build(self, form="--deb", output=None, **settings):
        """(the exit status, the version, the standard error)"""
        (self.folder / "log").write_text("")
        words = [form, str(self.folder / "out")] if output is None else [form, *output]
        done = subprocess.run([str(self.tree / "packaging/build_packages"), *words], cwd=self.tree,
                              env=self.environment(**settings), capture_output=True, text=True, timeout=60, check=False)
        version = re.search(r"GDR_PACKAGE_VERSION=(\S+)", (self.folder / "log").read_text())
        return done.returncode, version and version[1], done.stdout + done.stderr

    def test_CommitsOfOneDay_HaveVersionsInTheirOrder(self):
        versions = []
        for time in ("1700000000", "1700000061", "1700000122"):
            self.commit(time)
            status, version, error = self.build()
            self.assertEqual(status, 0, error)
            self.assertRegex(version, r"^[0-9.]+~git20231114221[3-6]\d\d\.[0-9a-f]{7}$")
            versions.append(version)
        self.assertEqual(versions, sorted(versions))
        self.assertIn("--fresh", (self.folder / "log").read_text())

    def test_TaggedCommit_HasTheVersionOfTheRelease(self):
        self.commit("1700000000")
        release = re.search(r"project\(.* VERSION ([0-9.]+)", (self.tree / "CMakeLists.txt").read_text())[1]
        self.git("tag", f"v{release}")
        self.assertEqual(self.build()[1], release)
        (self.tree / "new").touch()
        self.assertEqual(self.build()[1], f"{release}.modified")

    def test_Tarball_HasOneFolderAndNothingOfWhoBuilds(self):
        self.commit("1700000000")
        archives = []
        for _ in range(2):
            status, version, error = self.build("--tar")
            self.assertEqual(status, 0, error)
            file, = (self.folder / "out").iterdir()
            archives.append(file.read_bytes())
        self.assertEqual(archives[0], archives[1])
        name = f"nccl-net-gdr-{version}-{os.uname().machine}"
        self.assertEqual(file.name, f"{name}.tar.gz")
        with tarfile.open(file) as members:
            self.assertEqual([(one.name, oct(one.mode), one.uid, one.gid, one.mtime) for one in members],
                             [(name + path, mode, 0, 0, 1700000000) for path, mode in (
                                 ("", "0o755"), ("/a", "0o644"), ("/bin", "0o755"), ("/bin/b", "0o755"))])

    def test_SecondRun_ChangesNothingWhereverTheOutputIs(self):
        for time, output, left in (("1700000000", ["made/here"], 2), ("1700000061", ["."], 2), ("1700000122", [], 1)):
            folder = self.tree / (output[0] if output else "build-dist")
            (folder / "other").mkdir(parents=True)
            (folder / "nccl-net-gdr-0.tar.gz").touch()
            self.commit(time)
            first, again = self.build("--tar", output), self.build("--tar", output)
            self.assertEqual(first, again)
            self.assertRegex(again[2], r"^\w{64}  nccl-net-gdr-0\.1\.0~git\d+\.\w{7}-\w+\.tar\.gz\n$")
            self.assertEqual(len(list(folder.glob("nccl-net-gdr-*.tar.gz"))), left)
            self.git("clean", "-fdq")

    def test_CheckoutThatGitRefuses_ShowsGitsReason(self):
        self.commit("1700000000")
        self.tool("git", "#!/bin/sh\necho 'fatal: detected dubious ownership in repository' >&2; exit 128\n")
        for settings in ({}, {"SOURCE_DATE_EPOCH": "1700000000"}):
            status, version, error = self.build(**settings)
            self.assertEqual((status, version), (1, None))
            self.assertIn("dubious ownership", error)
            self.assertIn("git cannot read this checkout", error)

    def test_TreeWithoutGit_NeedsTheTimeAndIsNoRelease(self):
        status, version, error = self.build()
        self.assertEqual((status, version), (1, None))
        self.assertIn("Fix: set SOURCE_DATE_EPOCH", error)
        status, version, error = self.build(SOURCE_DATE_EPOCH="1700000000")
        self.assertEqual(status, 0, error)
        self.assertRegex(version, r"^[0-9.]+~unknown20231114221320$")


if __name__ == "__main__":
    unittest.main()
