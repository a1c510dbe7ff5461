#!/usr/bin/env python3
"""The Debian packages that cpack makes of a build folder: fields, files and scripts.

usage: packages_test.py BUILD_FOLDER VERSION LIBDIR

Exits with 77 where the tools that cpack needs are missing.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

BUILD, VERSION, LIBDIR = sys.argv[1:4]
del sys.argv[1:4]
PLUGIN, TOOLS, SOFTHCA = PACKAGES = ("nccl-net-gdr", "nccl-net-gdr-tools", "nccl-net-gdr-softhca")
EPOCH = 1700000000  # the time of the sources, in seconds since 1970


class Package:
    """A Debian package, read by dpkg-deb."""

    def __init__(self, file: Path):
        self.file = file
        self.bytes = file.read_bytes()
        text = self._dpkg_deb("--field").decode()
        lines = text.splitlines()
        self.fields = dict(line.split(": ", 1) for line in lines if line[:1].strip())
        self.description = [line for line in lines if line.startswith(" ")]
        with self._tar("--fsys-tarfile") as members:
            self.members = {"/" + one.name.removeprefix("./"): one for one in members}
        self.files = {name for name, one in self.members.items() if not one.isdir()}
        with self._tar("--ctrl-tarfile") as members:
            self.control = {one.name.removeprefix("./"): members.extractfile(one).read().decode()
                            for one in members if one.isfile()}

    def _tar(self, option: str) -> tarfile.TarFile:
        return tarfile.open(fileobj=io.BytesIO(self._dpkg_deb(option)))

    def _dpkg_deb(self, option: str) -> bytes:
        return subprocess.run(["dpkg-deb", option, self.file], check=True, stdout=subprocess.PIPE).stdout


def cpack(folder: Path) -> dict[str, Package]:
    command = ["cpack", "--config", Path(BUILD) / "CPackConfig.cmake", "-G", "DEB", "-B", folder,
               "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"]  # faster than xz
    done = subprocess.run(command, cwd=BUILD, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
                          check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"cpack failed:\n{done.stdout}")
    packages = (Package(file) for file in sorted(folder.glob("*.deb")))
    return {package.fields["Package"]: package for package in packages}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.packages = cpack(Path(folder.name))

    def test_fields_of_three_packages(self):
        self.assertEqual(set(self.packages), set(PACKAGES))
        for name, package in self.packages.items():
            fields = package.fields
            self.assertEqual(fields["Version"], f"{VERSION}-1")
            self.assertEqual(fields["Source"], PLUGIN)
            self.assertRegex(fields["Depends"], r"\blibc6 \(>= ")
            self.assertGreater(len(package.description), 3)
            for field in ("Conflicts", "Replaces", "Provides"):
                self.assertNotIn(field, fields)
        self.assertIn("libibverbs1", self.packages[PLUGIN].fields["Recommends"])
        self.assertNotIn("ibverbs", self.packages[PLUGIN].fields["Depends"])
        self.assertIn("python3:any (>= 3.9)", self.packages[TOOLS].fields["Depends"])

    def test_scripts_are_those_of_ldconfig_for_the_plugin(self):
        for name, package in self.packages.items():
            expected = {"control", "md5sums"} | ({"postinst", "postrm"} if name == PLUGIN else set())
            self.assertEqual(set(package.control), expected, name)

    def test_libraries_are_where_they_belong(self):
        libraries = {name: {file for file in package.files if ".so" in file}
                     for name, package in self.packages.items()}
        self.assertEqual(libraries[PLUGIN], {f"/usr/{LIBDIR}/libnccl-net-gdr.so"})
        folder = f"/usr/{LIBDIR}/nccl-net-gdr/softhca"
        self.assertEqual(libraries[SOFTHCA],
                         {f"{folder}/libibverbs.so", f"{folder}/libibverbs.so.1"})
        self.assertEqual(libraries[TOOLS], set())
        self.assertIn("/usr/bin/nccl-gdr", self.packages[TOOLS].files)

    def test_no_file_is_in_two_packages_or_outside_usr(self):
        seen: set[str] = set()
        for package in self.packages.values():
            self.assertFalse(seen & package.files)
            seen |= package.files
        self.assertEqual([file for file in seen if not file.startswith("/usr/")], [])

    def test_owners_modes_and_times_do_not_depend_on_who_builds(self):
        for package in self.packages.values():
            for name, one in package.members.items():
                self.assertEqual((one.uid, one.gid, one.mtime), (0, 0, EPOCH), name)
                script = "/nccl-tests-config/" in name and one.mode & 0o111
                executable = one.isdir() or script or name.startswith("/usr/bin/") or ".so" in name
                if not one.issym():  # whose mode means nothing
                    self.assertEqual(oct(one.mode & 0o7777), oct(0o755 if executable else 0o644), name)

    def test_packaging_twice_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            again = cpack(Path(folder))
        for name, package in again.items():
            self.assertEqual(package.bytes, self.packages[name].bytes, name)


if __name__ == "__main__":
    for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps", "file"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed")
            sys.exit(77)
    unittest.main(verbosity=2)
