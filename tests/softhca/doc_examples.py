#!/usr/bin/env python3
"""Runs the examples of the documents over the software HCA, and compares what they print.

usage: doc_examples.py BUILD [DOCUMENT...]    BUILD: the build folder; default: every document

An example is a block of code with the language `console`. A line that begins with "$ " is a
command, which may go on behind a backslash; the lines below it are what it prints:

    ```console
    $ nccl-gdr perf sendrecv -b 8 -e 8
    ...
     8          1000           0.93  ...
    ```

- A line of three dots stands for any number of lines, three dots in a line for any text.
- A number with a decimal point stands for any number: measurements differ from run to run. All
  other numbers and words have to be as shown; blanks between them do not count.
- A command below which nothing is shown only has to succeed.
- Every command has to succeed. `COMMAND || echo "exit status $?"` shows one that does not.

The commands of a document run in one bash, in a copy of the checkout made of links, in which
`build` is BUILD. They may lock as little memory as those of an ordinary user. In a document with
examples, every other block of a shell has to be followed by a paragraph that begins with "Not run
by the tests:" and has the reason.
"""

import ctypes
import dataclasses
import os
import pathlib
import re
import resource
import secrets
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
_TIMEOUT_S = 240
_FENCE = re.compile(r"^```([a-z]*) *$")
_SHELLS = {"sh", "bash", "shell"}
_NOT_RUN = "Not run by the tests:"
_LEAST_MEMORY_LOCK = 64 << 10  # the default of Linux before 5.16
_PR_CAPBSET_DROP, _CAP_IPC_LOCK = 24, 14  # linux/prctl.h, linux/capability.h
_SETTINGS = ("NCCL_", "GDR_NCCL_", "SOFTHCA_CONFIG")
# Three dots, a number with a decimal point that is no version, blanks; in this order.
_TOKEN = re.compile(r"\.\.\.|(?<![\w.:])\d+\.\d+(?![\w.:])|\s+")


@dataclasses.dataclass
class Block:
    """A block of code: its language, its lines, and the number of the first one in the document."""
    language: str
    lines: list[str]
    number: int
    behind: str  # the first line that is not blank behind the block


@dataclasses.dataclass
class Example:
    """One command with the lines that it is shown to print; `number` is that of its line."""
    command: str
    shown: list[str]
    number: int


def blocks(text: str) -> list[Block]:
    """The blocks of code of a document, those that are not indented."""
    found: list[Block] = []
    lines = text.split("\n")
    opened = None
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if opened is None and fence:
            opened = Block(fence.group(1), [], number + 1, "")
        elif opened is not None and line.rstrip() == "```":
            opened.behind = next((after for after in lines[number:] if after.strip()), "")
            found.append(opened)
            opened = None
        elif opened is not None:
            opened.lines.append(line)
    return found


def examples(text: str) -> list[Example]:
    """The commands of all `console` blocks of a document, in their order."""
    found: list[Example] = []
    for block in blocks(text):
        if block.language != "console":
            continue
        goes_on = False
        in_block: list[Example] = []
        for number, line in enumerate(block.lines, block.number):
            if goes_on:
                in_block[-1].command += "\n" + line
            elif line.startswith("$ "):
                in_block.append(Example(line[2:], [], number))
            elif in_block:
                in_block[-1].shown.append(line)
            elif line.strip():
                raise ValueError(f"line {number}: a console block begins with a line \"$ COMMAND\"")
            goes_on = bool(in_block) and line.endswith("\\") and not in_block[-1].shown
        found += in_block
    return found


def unexplained_blocks(text: str) -> list[int]:
    """The lines of blocks of a shell that neither run nor have a reason why not."""
    if not examples(text):
        return []
    return [block.number for block in blocks(text)
            if block.language in _SHELLS and not block.behind.startswith(_NOT_RUN)]


def _pattern(shown: str) -> re.Pattern[str]:
    """What a printed line has to look like to be the one that is shown."""
    regex, at = r"\s*", 0
    for token in _TOKEN.finditer(shown.strip()):
        regex += re.escape(shown.strip()[at:token.start()])
        regex += {"...": ".*"}.get(token[0], r"\s+" if token[0].isspace() else r"\d+(?:\.\d+)?")
        at = token.end()
    return re.compile(regex + re.escape(shown.strip()[at:]) + r"\s*")


def difference(shown: list[str], printed: list[str]) -> str | None:
    """What is shown and was not printed; None where all of it was, in this order."""
    if not any(line.strip() for line in shown):
        return None
    parts: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == "...":
            parts.append([])
        elif line.strip():
            parts[-1].append(line)
    lines = [line for line in printed if line.strip()]
    at = 0
    for index, part in enumerate(parts):
        patterns = [_pattern(line) for line in part]
        fits = [start for start in range(at, len(lines) - len(part) + 1)
                if all(pattern.fullmatch(lines[start + i]) for i, pattern in enumerate(patterns))]
        if index == 0:
            fits = [start for start in fits if start == 0]
        if index == len(parts) - 1:
            fits = [start for start in fits if start + len(part) == len(lines)]
        if not fits:
            return "\n".join(part) if part else f"nothing behind line {at} of the output"
        at = fits[0] + len(part)
    return None


def _tree(folder: pathlib.Path, build: pathlib.Path) -> None:
    """Fills a folder with links to the checkout, in which `build` is the build folder."""
    for entry in ROOT.iterdir():
        if not entry.name.startswith((".", "build")):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").symlink_to(build)


def _script(commands: list[Example], mark: str) -> str:
    """A bash script that prints a line with the mark behind each command's output."""
    lines = []
    for example in commands:
        lines += [example.command, f"printf '\\n{mark} %d\\n' $?"]
    return "\n".join(lines) + "\n"


def _become_ordinary_user() -> None:
    """Limits the memory that this process may lock, and what it executes, whoever runs it."""
    ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_IPC_LOCK, 0, 0, 0)  # only root can, and needs to
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (_LEAST_MEMORY_LOCK, _LEAST_MEMORY_LOCK))


def _run(commands: list[Example], folder: pathlib.Path) -> list[tuple[int, list[str]]]:
    """Runs the commands in one bash; returns each one's exit status and lines, of those that ended."""
    mark = f"--- {secrets.token_hex(8)}"
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(_SETTINGS)}
    with subprocess.Popen(["bash", "--norc", "--noprofile", "-c", _script(commands, mark)],
                          cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True, preexec_fn=_become_ordinary_user) as bash:
        try:
            output = bash.communicate(timeout=_TIMEOUT_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(bash.pid, signal.SIGKILL)
            output = bash.communicate()[0]
    ended = re.split(rf"\n{re.escape(mark)} (\d+)\n", output)
    return [(int(status), text.split("\n"))
            for text, status in zip(ended[:-1:2], ended[1::2])] + [(-1, ended[-1].split("\n"))]


def failures(name: str, text: str, build: pathlib.Path) -> tuple[int, list[str]]:
    """The number of a document's commands, and what is wrong with those that are not as shown."""
    found = [f"{name}:{line}: a block of a shell that is not run: make it `console`, or let a "
             f"paragraph behind it begin with \"{_NOT_RUN}\"" for line in unexplained_blocks(text)]
    commands = examples(text)
    if not commands:
        return 0, found
    with tempfile.TemporaryDirectory(prefix="doc-examples-") as folder:
        _tree(pathlib.Path(folder), build)
        results = _run(commands, pathlib.Path(folder))
    for example, (status, printed) in zip(commands, results):
        where = f"{name}:{example.number}: {example.command}"
        output = "\n".join(printed[-40:])
        if status != 0:
            ended = "did not end" if status < 0 else f"ended with status {status}"
            found.append(f"{where}\n{ended}; its output was\n{output}")
            if status < 0:
                break
        elif (missing := difference(example.shown, printed)) is not None:
            found.append(f"{where}\ndid not print\n{missing}\nits output was\n{output}")
    return len(commands), found


def documents() -> list[str]:
    """Every document of the checkout that is not in a build folder, by its path from the root."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.md")
                  if not path.relative_to(ROOT).parts[0].startswith((".", "build")))


def main(arguments: list[str]) -> int:
    if not arguments:
        sys.exit(__doc__)
    build = pathlib.Path(arguments[0]).resolve()
    if not (build / "bin/nccl-gdr").exists():
        sys.exit(f"{build}/bin/nccl-gdr does not exist; build it first: ./run build")
    ran, found = 0, []
    for name in arguments[1:] or documents():
        count, wrong = failures(name, (ROOT / name).read_text(encoding="utf-8"), build)
        ran, found = ran + count, found + wrong
    print("\n\n".join(found + [f"{len(found)} of {ran} commands of documents are not as shown"]))
    return 1 if found or ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
