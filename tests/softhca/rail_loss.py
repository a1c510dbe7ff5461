#!/usr/bin/env python3
"""Loses rails at seeded points of the protocol, and checks that every message arrives once and right.

Two processes, of the program rail_loss_end, send to each other over two rails of the software HCA, by the
plugin's table. Prints a line for each run that is not as it should be, and two tables of all: what became of
the runs, and in which phase of the protocol their faults happened. Returns 1 if data was wrong, a run hung,
an error came where the other rail could carry on, or none where one had to come.
"""

import argparse
import collections
import json
import pathlib
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from over_softhca import environment  # noqa: E402

ANSWER_S = 90  # for one answer of an end, which gives up by itself before that
# How often a seed of a list runs until its faults happen: which rail carries the n-th request depends on
# the load of the machine.
TRIES = 4
KINDS = ("QP error", "acknowledgement lost", "both rails", "device fatal", "device removed", "lost at a flush",
         "lost while connecting", "no recovery possible", "port down", "port flaps", "rail returns, other lost",
         "rail slowed", "second fault, same rail", "status at the requester", "status at the responder")
PHASES = ("connect", "clear-to-send", "data", "end", "completion", "flush", "probe", "between")
# By the kind of a work request, bits 56 to 63 of its work id (transport/pairs/work_id.h), but for chunks.
CHUNK, PHASE_OF_KIND = 1, {2: "clear-to-send", 4: "flush"}
COLUMNS = ("runs", "happened", "lost", "returned", "wrong", "hung", "failed", "error")


def environment_of(qps, split, adaptive, memory):
    """That of both ends. An HCA gives up after 67 ms, and a connection that has no rail left after 5 s."""
    variables = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_QPS_PER_CONNECTION": str(qps),
                 "NCCL_IB_SPLIT_DATA_ON_QPS": str(int(split)), "NCCL_IB_ADAPTIVE_ROUTING": str(int(adaptive)),
                 "NCCL_IB_TIMEOUT": "11", "GDR_NCCL_WATCHDOG_SEC": "5"}
    return variables if memory == "host" else variables | {"GDR_NCCL_GPU_MEMORY": memory}


def config_of(end, ethernet, devices, faults):
    """That of the software HCA of an end, whose devices get names, and on RoCE addresses."""
    for rail, device in enumerate(devices):
        device["name"] = f"rail{rail}"
        if ethernet:
            device |= {"link_layer": "Ethernet", "gids": [f"::ffff:10.0.{rail}.{end + 1}"]}
    return {"report_faults": True, "devices": devices, "faults": faults}


def configured(described):
    """The scenario that the program describes, with what its processes need."""
    configs = []
    for end in range(2):
        faults = [fault for fault in described["faults"] if fault["end"] == end]
        devices = [{"pci": f"0000:{0x3b + 0x23 * rail:02x}:00.0", "rate_gbps": described["rate_gbps"]}
                   for rail in range(2)]
        config = config_of(end, described["ethernet"], devices,
                           [fault["fault"] for fault in faults if fault["at_message"] < 0])
        if any(fault["at_message"] >= 0 for fault in faults):
            config["faults_file"] = ""
        configs.append(config)
    settings = (described[name] for name in ("queue_pairs", "split", "adaptive", "memory"))
    return described | {"configs": configs, "gpu": described["memory"] != "host", "text": json.dumps(described),
                        "environment": environment_of(*settings) | {"NCCL_IB_MQP_RETRY_SLEEP_MSEC": "1"}}


def phase_of(fault, connected):
    """Where the connection was when a fault happened. At a request, its work id and moment decide."""
    if "wr_id" not in fault:  # when an end had completed some messages
        return "between" if connected else "connect"
    kind = fault["wr_id"] >> 56
    if kind != CHUNK:
        return PHASE_OF_KIND.get(kind, "probe")
    if fault["moment"] == "begun":
        return "data"  # of which nothing had arrived
    # The data of the chunk was there, and its immediate was not. With adaptive routing the data is a write of its
    # own, before the one with the immediate. Else the receiver had it, the sender at most.
    return "end" if fault["moment"] == "arrived" or fault["opcode"] == "write" else "completion"


def happened_in(log):
    """[(kind, phase, whether after the pause)] of the faults in the log of an end, in their order, as the software HCA
    prints them ("report_faults" of softhca/README.md)."""
    happened, connected, paused = [], False, False
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        connected = connected or line.endswith(" connected")
        paused = paused or line.endswith("the pause is over")
        if line.startswith("softhca: fault happens: {") and line.endswith("}"):  # of a killed end it may be half a line
            fault = json.loads(line.removeprefix("softhca: fault happens: "))
            happened.append((fault["kind"], phase_of(fault, connected), paused))
    return happened


class End:
    """One of the two processes of a run. Once it has ended, or does not answer, it stays so. The scenario is
    configured(), or that of soak.py, which has its `traffic`."""

    def __init__(self, options, scenario, number):
        self.log = options.folder / f"{scenario['seed']}-{number}.log"
        self.ended = ""  # how, for a person
        self._unread = b""
        faults = options.folder / f"{scenario['seed']}-{number}.faults"
        faults.unlink(missing_ok=True)
        config = scenario["configs"][number]
        if "faults_file" in config:
            config["faults_file"] = str(faults)
        libraries = [options.build / "softhca"]
        if scenario["gpu"]:
            libraries.append(options.build / "tests/fakes/cuda")
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [options.program, "run", scenario.get("traffic", str(scenario["seed"])), str(number),
                 options.build / "lib/libnccl-net-gdr.so", faults],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                env=environment(libraries, config, **scenario["environment"]))

    def write(self, line):
        try:
            self._process.stdin.write(f"{line}\n".encode())
        except BrokenPipeError:
            self.ended = "it has ended"

    def answer(self, word):
        """The rest of a line that begins with the word; None if none comes, or another one."""
        deadline = time.monotonic() + ANSWER_S
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                self.ended = "it does not answer"
                return None
            read = self._process.stdout.read(4096)
            if not read:
                self.ended = "it has ended"
                return None
            self._unread += read
        line, self._unread = self._unread.split(b"\n", 1)
        first, _, rest = line.decode().partition(" ")
        return rest if first == word else None

    def close(self):
        self._process.stdin.close()
        if self.ended:
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class Run:
    """What becomes of a scenario. `verdicts` has "wrong", "hung", "failed" (an error where there must be none,
    or one without a reason; or no error where one must be) and "error" (one that may be, with its reason)."""

    def __init__(self, scenario, ends):
        self.scenario, self.ends = scenario, ends
        self.verdicts, self.text = set(), ""
        self.happened = []  # (kind, phase, whether after the pause) of each fault
        self.lost = self.returned = self.stall_ms = 0

    def add(self, verdict, end, text):
        self.verdicts.add(verdict)
        self.text += f"\n  end {end}: {text}"

    def exchange_handles(self):
        handles = [end.answer("handle") for end in self.ends]
        for number, handle in enumerate(handles):
            if handle is None:
                self.add("failed", number, "it cannot listen")
        if None in handles:
            return False
        for end, handle in zip(self.ends, reversed(handles)):
            end.write(f"peer {handle}")
        return True

    def ask(self, word):
        """The answers of both ends; None where one does not answer."""
        lines = [end.answer(word) for end in self.ends]
        for number, (end, line) in enumerate(zip(self.ends, lines)):
            if line is None:
                self.add("failed" if end.ended == "it has ended" else "hung", number,
                         end.ended or "its answer makes no sense")
        return None if None in lines else [json.loads(line) for line in lines]

    def all_happened(self):
        return len(self.happened) == len(self.scenario["faults"])

    def may_fail(self):
        """Whether the faults that happened may end connections. The second loss of a pair of faults is one too
        many only where the first had not happened before the pause between them."""
        if self.scenario["expect"] == "completes" or not self.all_happened():
            return False
        return not self.scenario["pauses"] or all(late for _, _, late in self.happened)

    def judge_done(self, number, done):
        self.stall_ms = max(self.stall_ms, done["stall_ms"])
        if done["wrong"]:
            self.add("wrong", number, done["wrong"])
        if done["hung"]:
            self.add("hung", number, "hangs: " + done["hung"])
        if done["errors"]:
            expected = self.may_fail() and any(reason in warning for reason in self.scenario["reasons"]
                                               for warning in done["warnings"])
            self.add("error" if expected else "failed", number,
                     f"{'error' if expected else 'error that must not be'} {done['errors']}: {done['warnings']}")

    def judge_failure(self, done):
        """The request that fails belongs to one connection. Both ends of that report it; but at a flush the
        sender's part may be over."""
        first, second = [{connection for connection, _ in one["errors"]} for one in done]
        if len(first | second) == 1 and (first and second or self.happened[0][1] == "flush"):
            return
        self.verdicts.add("failed")
        self.text += f"\n  errors of connections {first} at end 0, {second} at end 1"

    def drive(self):
        done = self.ask("done") if self.exchange_handles() else None
        closed = None
        if done is not None:
            for end in self.ends:
                end.write("close")
            closed = self.ask("closed")
        return done, closed

    def judge(self, done, closed):
        for number, one in enumerate(done or ()):
            self.judge_done(number, one)
        if done and self.scenario["expect"] == "fails" and self.all_happened():
            self.judge_failure(done)
        for number, one in enumerate(closed or ()):
            self.lost += one["lost"]
            self.returned += one["returned"]
            if one["wrong"]:
                self.add("wrong", number, one["wrong"])


class Runs:
    def __init__(self, options):
        self.options = options
        self.right = True
        self.rows = collections.defaultdict(collections.Counter)  # by kind and by "all"
        self.stalls = collections.defaultdict(list)  # of the runs whose faults happened and that did not hang

    def count(self, kind, run):
        row = self.rows[kind]
        row.update(["runs", *run.verdicts, *(phase for _, phase, _ in run.happened)])
        row.update(happened=run.all_happened(), lost=run.lost > 0, returned=run.returned > 0)
        if run.all_happened() and "hung" not in run.verdicts:
            self.stalls[kind].append(run.stall_ms)

    def run_seed(self, seed):
        """Returns whether all faults happened."""
        scenario = configured(json.loads(subprocess.check_output([self.options.program, "describe", str(seed)])))
        ends = [End(self.options, scenario, number) for number in range(2)]
        run = Run(scenario, ends)
        try:
            done, closed = run.drive()
            run.happened = [fault for end in ends for fault in happened_in(end.log)]
            run.judge(done, closed)
        finally:
            for end in ends:
                end.close()
        for kind in (scenario["kind"], "all"):
            self.count(kind, run)
        bad = run.verdicts & {"wrong", "hung", "failed"}
        self.right = self.right and not bad
        if bad or self.options.keep:
            happened = ", ".join(f"{kind} ({phase})" for kind, phase, _ in run.happened) or "none"
            print(f"{'FAILED' if bad else 'passed'}: {scenario['text']}{run.text}\n  happened: {happened}; "
                  f"lost {run.lost} returned {run.returned} stall {run.stall_ms:.0f} ms, logs: {ends[0].log} "
                  "and -1", flush=True)
        else:
            for end in ends:
                end.log.unlink()
        return run.all_happened()

    def run_list(self):
        for seed in self.options.list:
            if not any(self.run_seed(seed) for _ in range(TRIES)):
                print(f"FAILED: the faults of seed {seed} did not all happen")
                self.right = False
        missing = [kind for kind in KINDS if not self.rows[kind]["happened"]]
        missing += [phase for phase in PHASES if not self.rows["all"][phase]]
        if missing:
            print(f"FAILED: did not happen: {missing}")
            self.right = False

    def print_tables(self):
        kinds = sorted(self.rows.keys() - {"all"}) + ["all"]
        print(f"{'fault':26}", *(f"{column:>8}" for column in COLUMNS), f"{'stall ms':>9} {'worst':>9}")
        for kind in kinds:
            stalls = self.stalls[kind] or [0]
            print(f"{kind:26}", *(f"{self.rows[kind][column]:8}" for column in COLUMNS),
                  f"{statistics.median_high(stalls):9.0f} {max(stalls):9.0f}")
        print(f"\n{'happened at':26}", *(f"{phase:>13}" for phase in PHASES))
        for kind in kinds:
            print(f"{kind:26}", *(f"{self.rows[kind][phase]:13}" for phase in PHASES))

    def run(self):
        """Returns whether all was as it should be."""
        options, seed, happened = self.options, self.options.first, 0
        if options.list:
            self.run_list()
        while not options.list and (happened < options.happened if options.happened
                                    else seed < options.first + options.seeds):
            happened += self.run_seed(seed)
            seed += 1
        self.print_tables()
        return self.right


def run_in_folder(kind, options):
    """Has `kind` make its runs, with a folder for their logs, which stays where one was not right. Returns the exit
    status."""
    options.build = options.build.resolve()
    options.program = options.build / "tests/rail_loss_end"
    options.folder = pathlib.Path(tempfile.mkdtemp(prefix="rail-loss-"))
    right = kind(options).run()
    if right and not options.keep:
        shutil.rmtree(options.folder)
    return 0 if right else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", type=pathlib.Path, help="build folder")
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--seeds", type=int, default=40, help="how many seeds")
    parser.add_argument("--happened", type=int, default=0, help="go on until the faults of so many happened")
    parser.add_argument("--list", type=int, nargs="+",
                        help="seeds whose faults must happen, of every kind and in every phase")
    parser.add_argument("--keep", action="store_true", help="keep the logs")
    options = parser.parse_args()
    return run_in_folder(Runs, options)


if __name__ == "__main__":
    sys.exit(main())
