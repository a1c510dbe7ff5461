"""The files of the checkout that the checks of this folder read."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _listed_by_git(paths):
    """Tracked and new files, without those that git ignores; None where git does not list them."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths],
            cwd=ROOT, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return listed.stdout.split("\0") if listed.returncode == 0 else None


def _found(path):
    return [path] if path.is_file() else sorted(path.rglob("*"))


def source_files(paths):
    """Names, relative to ROOT, of the files at or below the paths; in an archive all of them."""
    names = _listed_by_git(paths)
    if names is None:
        found = (file.relative_to(ROOT) for path in paths for file in _found(ROOT / path))
        names = (str(name) for name in found if not name.parts[0].startswith(("build", ".")))
    return [name for name in names if name and (ROOT / name).is_file()]
