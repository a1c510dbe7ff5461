#!/usr/bin/env python3
"""Runs a verbs program over the software HCA, as one process or as server and client.

run_program.py --softhca FOLDER --expect REGEX [--pair] [--config JSON] -- PROGRAM [ARGUMENT...]

A pair gets "-p PORT" with a free port, and the client "localhost" at its end. It fails when a
program fails, when no line of the (client's) output matches, or when files are left in /dev/shm.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from over_softhca import free_address  # noqa: E402

TIMEOUT_S = 90


def listens(port):
    """Whether a socket of this machine listens on the port; a connection would confuse perftest."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name, encoding="ascii") as table:
            for line in list(table)[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    return True
    return False


def start(command, environment):
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


def run_pair(command, environment):
    port = int(free_address().rsplit(":")[1])
    server = start([*command, "-p", str(port)], environment)
    deadline = time.monotonic() + TIMEOUT_S
    while not listens(port) and server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    client = start([*command, "-p", str(port), "localhost"], environment)
    try:
        output = client.communicate(timeout=TIMEOUT_S)[0]
        server_output = server.communicate(timeout=TIMEOUT_S)[0]
    finally:
        client.kill()
        server.kill()
    if client.returncode != 0 or server.returncode != 0:
        sys.exit(f"client {client.returncode}:\n{output}\nserver {server.returncode}:\n"
                 f"{server_output}")
    return output


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--softhca", required=True)
    parser.add_argument("--expect", required=True)
    parser.add_argument("--pair", action="store_true")
    parser.add_argument("--config", default="{}")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    fabric = f"program-{os.getpid()}"
    config = json.loads(options.config) | {"fabric": fabric}
    environment = os.environ | {"LD_LIBRARY_PATH": options.softhca,
                                "SOFTHCA_CONFIG": json.dumps(config)}
    if options.pair:
        output = run_pair(options.command, environment)
    else:
        output = subprocess.run(options.command, env=environment, text=True, check=True,
                                timeout=TIMEOUT_S, stdout=subprocess.PIPE).stdout
    print(output)
    if not re.search(options.expect, output, re.MULTILINE):
        sys.exit(f"no line matches {options.expect}")
    left = f"/dev/shm/softhca-{os.getuid()}-{fabric}"
    if os.path.exists(left):
        sys.exit(f"{left} was left behind")


if __name__ == "__main__":
    main()
