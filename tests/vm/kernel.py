#!/usr/bin/env python3
"""The distribution's kernel for the guests: its packages are downloaded and unpacked, not installed.

`kernel.py fetch FOLDER` needs apt and a network, but no root.
"""

import dataclasses
import functools
import lzma
import pathlib
import platform
import re
import shutil
import struct
import subprocess
import sys

# Metapackages that depend on the current kernel: Debian's, Ubuntu's.
_METAPACKAGES = ("linux-image-amd64", "linux-image-virtual")

# crc32_generic: without it `rdma link add` fails with "No such file or directory".
_MODULES = ("virtio_pci", "virtio_net", "9p", "9pnet_virtio", "crc32_generic", "rdma_rxe",
            "ib_uverbs", "rdma_ucm", "sch_netem", "sch_ingress", "cls_u32", "act_gact")


class Missing(Exception):
    """This machine lacks something; the text names it and how to get it."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    folder: pathlib.Path
    version: str

    @property
    def image(self):
        """The image, uncompressed if fetch() could do that: an emulated guest takes seconds for it."""
        plain = self.folder / "boot" / f"vmlinux-{self.version}"
        return plain if plain.exists() else self.folder / "boot" / f"vmlinuz-{self.version}"

    @functools.cached_property
    def modules(self):
        """(file name, uncompressed bytes) of the guests' modules, in the order of loading."""
        files = []
        for module in _MODULES:
            shown = subprocess.run(
                ["/sbin/modprobe", "-d", str(self.folder), "-S", self.version, "--show-depends",
                 module], text=True, capture_output=True, check=False)
            if shown.returncode != 0:
                raise Missing(f"the kernel {self.version} has no module {module}: "
                              f"{shown.stderr.strip()}")
            files += re.findall(r"^insmod (\S+)", shown.stdout, re.MULTILINE)
        return [(_plain_name(file), _decompressed(pathlib.Path(file).read_bytes()))
                for file in dict.fromkeys(files)]


def _plain_name(file):
    return re.sub(r"\.(xz|zst)$", "", pathlib.Path(file).name)


def _decompressed(content):
    """The content, decompressed if its first bytes are those of xz or zstd."""
    if content.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(content)
    if content.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(["zstd", "-dcq"], input=content, check=True,
                              capture_output=True).stdout
    return content


def _uncompressed(image):
    """The ELF file inside a bzImage (its layout: Documentation/arch/x86/boot.rst), or None."""
    content = image.read_bytes()
    setup_sectors = content[0x1f1] or 4
    offset, length = struct.unpack_from("<II", content, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = content[start:start + length - 4]  # the last four bytes are the uncompressed size
    plain = _decompressed(payload)
    return plain if plain.startswith(b"\x7fELF") else None


def find(folder):
    """The kernel that fetch() has put into the folder; raises Missing if there is none."""
    folder = pathlib.Path(folder)
    for image in sorted(folder.glob("boot/vmlinuz-*")):
        version = image.name.removeprefix("vmlinuz-")
        if (folder / "lib" / "modules" / version / "modules.dep").exists():
            return Kernel(folder, version)
    raise Missing(f"no guest kernel in {folder}; get it by tests/vm/kernel.py fetch {folder}")


def _output(words):
    return subprocess.run(words, text=True, capture_output=True, check=False).stdout


def _packages():
    for metapackage in _METAPACKAGES:
        depends = _output(["apt-cache", "depends", metapackage])
        found = re.search(r"Depends: linux-image-(\d\S*)", depends)
        if found is None:
            continue
        version = found.group(1)
        optional = [f"linux-modules-{version}", f"linux-modules-extra-{version}"]
        return version, [f"linux-image-{version}"] + [
            package for package in optional if _output(["apt-cache", "show", package])]
    raise Missing("apt has no kernel package (" + ", ".join(_METAPACKAGES) +
                  "); run apt-get update")


def fetch(folder):
    """Downloads and unpacks the kernel packages into the folder, unless it has a kernel."""
    folder = pathlib.Path(folder)
    try:
        return find(folder)
    except Missing:
        pass
    if platform.machine() != "x86_64":
        raise Missing(f"guests are x86_64; this machine is {platform.machine()}")
    for tool in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(tool) is None:
            raise Missing(f"{tool} is not installed; the guest kernel is a package of Debian or Ubuntu")
    version, packages = _packages()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    fetched = subprocess.run(["apt-get", "-q", "-o", "Acquire::Retries=3", "download", *packages],
                             cwd=folder, text=True, capture_output=True, check=False)
    if fetched.returncode != 0:
        raise Missing(f"apt-get download {' '.join(packages)} failed: {fetched.stderr.strip()}")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
        package.unlink()
    subprocess.run(["/sbin/depmod", "-b", str(folder), version], check=True)
    plain = _uncompressed(folder / "boot" / f"vmlinuz-{version}")
    if plain is not None:
        (folder / "boot" / f"vmlinux-{version}").write_bytes(plain)
    return find(folder)


def main():
    if len(sys.argv) != 3 or sys.argv[1] != "fetch":
        sys.exit("usage: kernel.py fetch FOLDER")
    try:
        kernel = fetch(sys.argv[2])
    except Missing as missing:
        sys.exit(f"kernel.py: {missing}")
    print(f"guest kernel {kernel.version} in {kernel.folder}")


if __name__ == "__main__":
    main()
