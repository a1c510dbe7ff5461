"""Versions of this host that no log of NCCL shows: what a driver or firmware change changes."""

import pathlib
import platform
import re


def _text(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _driver(root):
    match = re.search(r"Kernel Module.*?\s([0-9]+\.[0-9.]+)\s",
                      _text(root / "proc/driver/nvidia/version"))
    return match[1] if match else ""


def _firmware(root):
    """"mlx5_0, mlx5_1 28.39.1002": the HCAs of each firmware version."""
    by_version = {}
    for device in sorted((root / "sys/class/infiniband").glob("*")):
        if version := _text(device / "fw_ver"):
            by_version.setdefault(version, []).append(device.name)
    return "; ".join(
        f"{', '.join(names)} {version}" for version, names in sorted(by_version.items()))


def versions(root="/"):
    """What -> version, of this host; what is unknown is left out."""
    root = pathlib.Path(root)
    found = {
        "NVIDIA driver": _driver(root),
        "Linux": platform.release(),
        "HCA firmware": _firmware(root)
    }
    return {name: value for name, value in found.items() if value}
