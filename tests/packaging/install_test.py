#!/usr/bin/env python3
"""`cmake --install` of a build folder into a prefix: what is where, and that it works from there.

usage: install_test.py BUILD_FOLDER VERSION LIBDIR
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD, VERSION, LIBDIR = sys.argv[1:4]
del sys.argv[1:4]
ROOT = Path(__file__).resolve().parents[2]


def output_of(*words: str | Path, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(words, env={**environment, **variables}, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise AssertionError(f"{words}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def glibc_version(text: str) -> tuple[int, int]:
    """The highest version of glibc that `text` names."""
    return max((int(major), int(minor)) for major, minor in re.findall(r"(?i)glibc[_ ](\d+)\.(\d+)", text))


# How the tool and the plugin name the commit of a checkout.
COMMIT = r"commit [0-9a-f]{7,}(\.modified)?"
OF_TOOL, OF_PLUGIN = (rf" \({COMMIT}\)", f", {COMMIT}") if (ROOT / ".git").exists() else ("", "")


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        first = Path(folder.name) / "first"
        # As in the folder of ./run demo, which has not built it.
        (Path(BUILD) / "man/nccl-net-gdr.7.gz").unlink(missing_ok=True)
        output_of("cmake", "--install", BUILD, "--prefix", first)
        # A prefix may be moved: nothing in it may name its place.
        cls.prefix = first.rename(Path(folder.name) / "moved")
        cls.program = cls.prefix / "bin/nccl-gdr"
        cls.plugin = cls.prefix / LIBDIR / "libnccl-net-gdr.so"
        cls.softhca = cls.prefix / LIBDIR / "nccl-net-gdr/softhca/libibverbs.so.1"

    def binaries(self):
        return {path for path in self.prefix.rglob("*")
                if path.is_file() and not path.is_symlink() and path.read_bytes().startswith(b"\x7fELF")}

    def test_libraries_and_programs_are_these_alone(self):
        self.assertEqual(self.binaries(), {self.program, self.program.with_name("nccl-gdr-diagnose"), self.plugin,
                                           self.softhca})
        # NCCL loads libibverbs.so, and libibverbs.so.1 only where there is none.
        link = self.softhca.with_name("libibverbs.so")
        self.assertEqual(sorted(self.prefix.rglob("libibverbs*")), [link, self.softhca])
        self.assertEqual(os.readlink(link), self.softhca.name)
        self.assertEqual(list(self.prefix.rglob("__pycache__")), [])

    def test_no_binary_has_a_search_path_of_its_own(self):
        for binary in self.binaries():
            self.assertNotRegex(output_of("readelf", "-d", binary), "RUNPATH|RPATH")

    @unittest.skipIf(glibc_version(os.confstr("CS_GNU_LIBC_VERSION")) > (2, 37),
                     "headers of this C library ask for newer functions")
    def test_binaries_run_with_glibc_2_34(self):
        for binary in self.binaries():
            self.assertLessEqual(glibc_version(output_of("objdump", "-T", binary)), (2, 34), binary)

    def test_binaries_do_not_name_the_folder_of_the_sources(self):
        for binary in self.binaries():
            self.assertNotIn(bytes(ROOT), binary.read_bytes(), binary)

    def test_plugin_exports_only_its_tables(self):
        exported = {tuple(line.split()[1:]) for line in
                    output_of("nm", "-D", "--defined-only", self.plugin).splitlines()}
        # Other names (ncclCollNetPlugin_v*, ncclTunerPlugin_v*, C++) would be looked up in the application's process.
        tables = (ROOT / "plugin/abi").glob("net_v*.h")
        self.assertEqual(exported, {("D", f"ncclNetPlugin_{file.stem.removeprefix('net_')}") for file in tables})

    def test_version_is_that_of_the_project(self):
        self.assertRegex(output_of(self.program, "--version"), rf"^nccl-gdr {VERSION}{OF_TOOL}\n$")

    def test_softhca_is_found_and_needed(self):
        found = output_of(self.program, "with-softhca", "--folder")
        self.assertEqual(found.strip(), str(self.softhca.parent.resolve()))
        self.assertIn("softhca0", output_of(self.program, "with-softhca", "ibv_devices"))
        hidden = self.softhca.rename(self.softhca.with_suffix(".hidden"))
        try:
            done = subprocess.run([self.program, "with-softhca", "true"], text=True, check=False,
                                  stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 125)
            self.assertIn("install the package nccl-net-gdr-softhca", done.stderr)
        finally:
            hidden.rename(self.softhca)

    def test_perf_finds_the_plugin_beside_it(self):
        done = output_of(self.program, "with-softhca", self.program, "perf", "all_reduce", "--ranks",
                         "2", "--begin", "8", "--end", "4K", "--factor", "8", NCCL_SOCKET_IFNAME="lo",
                         NCCL_DEBUG="INFO")
        self.assertRegex(done, r"# 2 ranks, \d+ sizes: 0 wrong")
        self.assertRegex(done, rf"version {VERSION} \(wire version \d+{OF_PLUGIN}, table v")

    def test_man_pages_are_there_where_help2man_is(self):
        pages = {page.name for page in (self.prefix / "share/man").rglob("*.gz")}
        self.assertIn("nccl-net-gdr.7.gz", pages)
        if shutil.which("help2man") is None:
            self.skipTest("help2man is not installed")
        for name in re.findall(r"^  ([a-z][\w-]*) ", output_of(self.program, "--help").split(
                "Subcommands:")[1], re.MULTILINE):
            self.assertIn(f"nccl-gdr-{name}.1.gz", pages)
        self.assertIn("nccl-gdr-burn-in.1.gz", pages)
        self.assertIn("--from", gzip.decompress(
            (self.prefix / "share/man/man1/nccl-gdr-topo.1.gz").read_bytes()).decode().replace("\\", ""))

    def test_scripts_of_nccl_tests_run(self):
        scripts = self.prefix / "share/nccl-net-gdr/nccl-tests-config"
        self.assertTrue(output_of(scripts / "compare", "--help").startswith("usage: compare"))
        burn_in = self.prefix / "bin/nccl-gdr-burn-in"
        self.assertTrue(output_of(burn_in, "--help").startswith("usage: nccl-gdr-burn-in"))

    def test_links_of_documents_lead_to_installed_files(self):
        documents = self.prefix / "share/nccl-net-gdr"
        broken = [f"{file.relative_to(documents)}: {link}"
                  for file in documents.rglob("*.md")
                  for link in re.findall(r"\]\(([^)#\s]+)", file.read_text())
                  # Headers and sources are not installed.
                  if "://" not in link and not link.endswith((".h", ".cc"))
                  and not (file.parent / link).exists()]
        self.assertEqual(broken, [])
        self.assertTrue((documents / "docs/install.md").exists())

    def test_licences_are_in_each_component(self):
        for package in ("nccl-net-gdr", "nccl-net-gdr-tools", "nccl-net-gdr-softhca"):
            notices = (self.prefix / "share/doc" / package / "copyright").read_text()
            for identifier in ("Apache-2.0", "MIT", "BSD-3-Clause", "CC0-1.0",
                               "GPL-3.0-or-later WITH GCC-exception-3.1"):
                self.assertIn(f"SPDX-License-Identifier: {identifier}", notices)


if __name__ == "__main__":
    unittest.main(verbosity=2)
