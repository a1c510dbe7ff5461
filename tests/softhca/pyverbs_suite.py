#!/usr/bin/env python3
"""rdma-core's own test suite (package python3-pyverbs) over the software HCA.

pyverbs_suite.py run --softhca FOLDER --expected FILE --unpacked FOLDER [--link-layer L] [--seed N]
pyverbs_suite.py fetch FOLDER

`run` fails when a test ends in an error or a failure, when one of the expected tests does not pass,
and when files are left in /dev/shm. It exits with 77, which CTest counts as skipped, where the package
is not installed. Tests are random in part: the seed decides what they choose.

`fetch` unpacks the package into a folder where the installed package has no tests, as in containers
whose dpkg leaves out /usr/share/doc; it needs apt and a network, but no root. The tests are of the
version that is installed, since it is the installed module that they import; of apt's newest, with a
message, where apt no longer has that version.
"""
import argparse
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
TIMEOUT_S = 240
# The interpreter for which the distribution builds pyverbs.
PYTHON = "/usr/bin/python3"
PACKAGE = "python3-pyverbs"
SUITE = pathlib.Path("usr/share/doc/rdma-core/tests")
RUNNER = pathlib.Path(__file__).with_name("pyverbs_runner.py")


def find_suite(roots):
    """The folder of the suite below the first root that has it, or None."""
    for root in map(pathlib.Path, roots):
        if any((root / SUITE).glob("test_cq.py*")):
            return root / SUITE
    return None


def missing(unpacked):
    """Why the suite cannot run here, or None."""
    if not os.access(PYTHON, os.X_OK):
        return f"there is no {PYTHON}"
    if find_suite(["/", unpacked]) is None:
        return ("the package python3-pyverbs is not installed, or its files in /usr/share/doc are not. "
                "Fix: ./run test")
    found = subprocess.run([PYTHON, "-c", "import pyverbs"], check=False, capture_output=True)
    if found.returncode != 0:
        return "the package python3-pyverbs is not installed. Fix: apt-get install python3-pyverbs"
    return None


def unpack(suite, folder):
    """Copies the suite, whose longer files are compressed. It is a package named `tests`."""
    folder.mkdir()
    for file in suite.iterdir():
        if file.name.endswith(".py.gz"):
            (folder / file.name[:-3]).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.name.endswith(".py"):
            (folder / file.name).write_bytes(file.read_bytes())


def read_expected(file, link_layer):
    """The ids of tests that have to pass on this link layer: one a line, then the only link layer."""
    expected = set()
    for line in pathlib.Path(file).read_text(encoding="ascii").splitlines():
        fields = line.split("#")[0].split()
        if fields and fields[1:] in ([], [link_layer]):
            expected.add(fields[0])
    return expected


def judge(results, expected):
    """(findings, notes) of results [id, outcome, reason] and the ids that have to pass."""
    findings, notes = [], []
    outcomes = {test: (outcome, reason) for test, outcome, reason in results}
    for test, (outcome, reason) in sorted(outcomes.items()):
        if outcome in ("error", "failure"):
            findings.append(f"{outcome}: {test}\n{reason}")
        elif outcome != "passed" and test in expected:
            findings.append(f"expected to pass, but {outcome}: {test}: {reason}")
        elif outcome == "passed" and test not in expected:
            notes.append(f"passes, but is not in the list: {test}")
    for test in sorted(expected - outcomes.keys()):
        notes.append(f"not in this version of rdma-core: {test}")
    if not outcomes:
        findings.append("no test ran")
    return findings, notes


def run_suite(options, folder, fabric):
    unpack(find_suite(["/", options.unpacked]), folder / "tests")
    device = {"link_layer": options.link_layer}
    environment = os.environ | {
        "LD_LIBRARY_PATH": options.softhca,
        "SOFTHCA_CONFIG": json.dumps({"fabric": fabric, "devices": [device]}),
        "PYTHONDONTWRITEBYTECODE": "1"}
    results = folder / "results.json"
    done = subprocess.run([PYTHON, str(RUNNER), str(folder), str(results), options.seed],
                          env=environment, timeout=TIMEOUT_S, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0 or not results.exists():
        sys.exit(f"the suite ended with {done.returncode}:\n{done.stdout}")
    return json.loads(results.read_text(encoding="utf-8"))


def run(options):
    reason = missing(options.unpacked)
    if reason is not None:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    fabric = f"pyverbs-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="pyverbs-") as folder:
        results = run_suite(options, pathlib.Path(folder), fabric)
    findings, notes = judge(results, read_expected(options.expected, options.link_layer))
    left = f"/dev/shm/softhca-{os.getuid()}-{fabric}"
    if os.path.exists(left):
        findings.append(f"{left} was left behind")
    for test, outcome, reason in results:
        print(f"{outcome}: {test}{': ' + reason if outcome == 'skipped' else ''}")
    counts = {kind: sum(outcome == kind for _, outcome, _ in results)
              for kind in ("passed", "failure", "error", "skipped")}
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    print("\n".join(notes))
    if findings:
        sys.exit("\n".join(findings))


def run_command(*command, folder=None):
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


def installed_version():
    """The version of the installed package, or None."""
    done = run_command("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", PACKAGE)
    fields = done.stdout.split()
    return fields[1] if done.returncode == 0 and fields[:1] == ["installed"] else None


def download(folder, version):
    """Downloads the package of that version, or else apt's newest, into the folder."""
    apt = ["apt-get", "-q", "-o", "Acquire::Retries=3", "download"]
    if version is not None:
        done = run_command(*apt, f"{PACKAGE}={version}", folder=folder)
        if done.returncode == 0:
            return
        print(f"{PACKAGE} {version} is installed, but cannot be downloaded: {done.stderr.strip()}\n"
              f"The tests are taken from apt's newest {PACKAGE} and may not fit the installed module. "
              f"Fix: apt-get update; apt-get install {PACKAGE}")
    done = run_command(*apt, PACKAGE, folder=folder)
    if done.returncode != 0:
        sys.exit(f"apt-get download {PACKAGE} failed: {done.stderr.strip()}")


def fetch(folder):
    folder = pathlib.Path(folder)
    version = installed_version()
    fetched_for = folder / "installed-version"  # when the folder was filled
    if find_suite([folder]) is not None and fetched_for.exists() and \
            fetched_for.read_text(encoding="ascii") == str(version):
        return
    folder.mkdir(parents=True, exist_ok=True)
    download(folder, version)
    shutil.rmtree(folder / SUITE, ignore_errors=True)  # of another version
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
        package.unlink()
    if find_suite([folder]) is None:
        sys.exit(f"{PACKAGE} has no {SUITE}")
    fetched_for.write_text(str(version), encoding="ascii")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("run")
    command.add_argument("--softhca", required=True)
    command.add_argument("--expected", required=True)
    command.add_argument("--unpacked", required=True)
    command.add_argument("--link-layer", default="InfiniBand")
    command.add_argument("--seed", default="1")
    command.set_defaults(call=run)
    command = commands.add_parser("fetch")
    command.add_argument("folder")
    command.set_defaults(call=lambda options: fetch(options.folder))
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
