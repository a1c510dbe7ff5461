#!/usr/bin/env python3
"""Fails where a worked example of docs/contributing no longer applies to the tree.

usage: check_worked_examples.py                     checks all of them
       check_worked_examples.py --print DOCUMENT    prints one as a patch, for `git apply`

The `diff` blocks of a document are one patch, in the order of the document.
"""

import os
import re
import subprocess
import sys

from source_files import ROOT, source_files

_DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def patch_of(text):
    """The diff blocks of a document, joined; "" where it has none."""
    return "".join(_DIFF.findall(text))


def failure(patch, root=ROOT):
    """What `git apply` says about a patch that does not apply to the tree; "" where it does."""
    # The ceiling makes git take the folder for what it is, not for a part of a repository above.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(root.parent)}
    done = subprocess.run(["git", "apply", "--check", "-"], cwd=root, input=patch, text=True,
                          env=environment, capture_output=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or "git apply failed"


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--print":
        print(patch_of((ROOT / arguments[1]).read_text(encoding="utf-8")), end="")
        return 0
    if arguments:
        sys.exit(__doc__)
    found, examples = [], 0
    for name in source_files(["docs/contributing"]):
        patch = patch_of((ROOT / name).read_text(encoding="utf-8"))
        if not patch:
            continue
        examples += 1
        if wrong := failure(patch):
            found.append(f"{name}: the example does not apply to this tree any more:\n{wrong}\n"
                         "change its diff blocks as the files that they name have changed")
    print("\n".join(found + [f"{len(found)} of {examples} worked examples do not apply"]))
    return 1 if found or not examples else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
