#!/usr/bin/env python3
"""Sends over three or four rails of the software HCA, with the faults that a seed draws, and checks every byte.

Two processes of the program rail_loss_end send to each other, as in rail_loss.py. Prints what became of each run
that is not as it should be, and a table. Returns 1 if data was wrong, a run hung, an error came where a rail was
left, or without a reason in the log; and, with several numbers of standby rails, where a run fails that the first
number survives.

soak.py BUILD --seeds 1..500 --standby 0 1 3
soak.py BUILD --seeds 17 --keep
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import sys

sys.dont_write_bytecode = True
from rail_loss import End, Run, config_of, environment_of, run_in_folder  # noqa: E402

BAD = ("wrong", "hung", "failed")
STATUSES = ("RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "WR_FLUSH_ERR", "REM_OP_ERR", "REM_ABORT_ERR", "FATAL_ERR",
            "RESP_TIMEOUT_ERR", "GENERAL_ERR")
# What happens to a rail that returns.
PASSING = {
    "ack_lost": lambda dice: {"count": dice.randint(1, 3)} | (
        {"late_us": dice.randint(1, 100_000)} if dice.random() < 0.5 else {}),
    "completion_error": lambda dice: {"status": dice.choice(STATUSES), "at_request": {
        "opcode": dice.choice(("any", "write", "write_with_imm")), "nth": dice.randint(1, 40),
        "moment": dice.choice(("begun", "arrived"))}},
    "port_flap": lambda dice: {"down_ms": dice.choice((1, 20, 300, 1500)), "up_ms": dice.randint(1, 200),
                               "count": dice.randint(1, 3)},
    "gid_change": lambda dice: {"gid_index": 3, "gid": f"::ffff:10.9.0.{dice.randint(1, 254)}"},
    "lid_change": lambda dice: {"lid": dice.randint(1000, 40000)},
    "packets_lost": lambda dice: {"at_s": 0, "from_bytes": dice.choice((0, 1025)), "for_ms": dice.randint(1, 2000)},
    "qp_error": lambda dice: {},
    "rate": lambda dice: {"share": dice.choice((0.02, 0.1, 0.5, 1))},
}
# To one that does not.
LASTING = {
    "device_fatal": lambda dice: {"silent": dice.random() < 0.5},
    "device_removed": lambda dice: {"silent": dice.random() < 0.5},
    "packets_lost": lambda dice: {"at_s": 0, "from_bytes": dice.choice((0, 1025))},
    "port_down": lambda dice: {},
    "modify_qp_refused": lambda dice: {"count": 0, "to": dice.choice(("INIT", "RTR", "RTS")), "errno": 22},
    "reg_mr_refused": lambda dice: {},
}
FROM_THE_START = ("modify_qp_refused", "reg_mr_refused")
# To a process.
OF_PROCESS = {
    "sockets": lambda dice: {"reset": dice.random() < 0.5},
    "stop": lambda dice: {"ms": dice.choice((50, 500, 3000))},
}


class Draw:
    """What a seed stands for."""

    def __init__(self, seed):
        self._dice = dice = random.Random(seed)
        rails, self.merged = dice.choice((3, 4)), dice.choice((0, 0, 2, 3))
        # Whether nothing happens to the one rail that carries data, so that the standby rails must do no harm.
        self._first = int(self.merged == 0 and dice.random() < 0.5)
        self.traffic = {"seed": seed, "rails": rails, "merged": self.merged, "messages": dice.randint(100, 300),
                        "slow_one_in": dice.choices((0, 4, 20), k=2), "gpu": dice.random() < 0.2, "events": []}
        self.at_start, self.ethernet = ([], []), dice.random() < 0.3
        for kind in dice.choices(sorted(PASSING.keys() - {"lid_change" if self.ethernet else "gid_change"}),
                                 k=dice.randint(1, 5)):
            self._add(self._of_rail(kind, PASSING))
        if dice.random() < 0.5:
            kind = dice.choice(sorted(LASTING))
            (dice.choice(self.at_start).append if kind in FROM_THE_START else self._add)(self._of_rail(kind, LASTING))
        for kind, make in OF_PROCESS.items():
            for _ in range(max(0, dice.randint(-3, 3))):
                self._add({"kind": kind} | make(dice))
        self._configure()

    def _of_rail(self, kind, kinds):
        rail = self._dice.randrange(self._first, self.traffic["rails"])
        return {"kind": kind, "device": f"rail{rail}"} | kinds[kind](self._dice)

    def _add(self, fault):
        at = self._dice.randrange(2 * self.traffic["messages"])
        self.traffic["events"].append({"end": self._dice.randrange(2), "at_message": at, "fault": fault})

    def _configure(self):
        dice = self._dice
        self.rate_gbps = dice.choices((2, 10, 40), k=self.traffic["rails"])
        qps = dice.choice((1, 1, 2, 4))
        # Few resources: 200 requests are enough for one rail of one QP.
        self.limit = dice.choices(({}, {"max_qp_wr": dice.choice((200, 300))}, {"max_qp": dice.randint(4, 12)}),
                                  (18, 1, 1))[0]
        if "max_qp" in self.limit:  # rails may differ; by other dice, which leave what follows as it is
            others = random.Random(self.traffic["seed"] + 0.5)
            self.limits = [{"max_qp": others.randint(2, 12)} for _ in self.rate_gbps]
        else:
            self.limits = [self.limit] * len(self.rate_gbps)
        self.is_limited = "max_qp" in self.limit or (bool(self.limit) and self.merged + qps > 1)
        split, adaptive = dice.choice("01"), dice.choice("01")
        self.environment = environment_of(qps, split == "1", adaptive == "1",
                                          "dmabuf" if self.traffic["gpu"] else "host")
        # Of a process: from what no connection can be made with up to what all rails need.
        self.memlock = {"memlock_bytes": int(2 ** dice.uniform(17, 26))} if dice.random() < 0.1 else {}
        self.is_limited |= bool(self.memlock)

    def faults(self):
        return [event["fault"] for event in self.traffic["events"]] + self.at_start[0] + self.at_start[1]

    def kinds(self):
        return {fault["kind"] for fault in self.faults()}

    def must_survive(self, standby):
        """One rail is lost for good at most, and others return in time. But a connection without a usable rail
        does not wait for one where it has lost its socket, too. A merged device has no standby rails, nor has an
        HCA of few resources."""
        standby = 0 if self.limit else min(self.traffic["rails"] - 1, standby)
        rails = {f"rail{rail}" for rail in range(self.merged or 1 + standby)}
        waits = len(rails) > 1 and "sockets" not in self.kinds()
        return not self.is_limited and (waits or bool(rails - {fault.get("device") for fault in self.faults()}))

    def _config(self, end, name):
        devices = [{"pci": f"0000:{0x10 + rail:02x}:00.0", "rate_gbps": rate} | self.limits[rail]
                   for rail, rate in enumerate(self.rate_gbps)]
        return config_of(end, self.ethernet, devices, self.at_start[end]) | {
            "fabric": f"{name}-{os.getpid()}", "faults_file": ""} | self.memlock

    def scenario(self, standby):
        name = f"{self.traffic['seed']}-{standby}"
        return {"seed": name, "traffic": json.dumps(self.traffic), "gpu": self.traffic["gpu"], "faults": [],
                "pauses": False, "expect": "completes" if self.must_survive(standby) else "may fail",
                "reasons": [""], "configs": [self._config(end, name) for end in range(2)],
                "environment": self.environment | {"GDR_NCCL_STANDBY_RAILS": str(standby)}}

    def text(self, standby):
        """For a person."""
        events = sorted(self.traffic["events"], key=lambda event: event["at_message"])
        lines = [f"{standby} standby rails, {self.traffic | {'events': ''}} {self.limits} "
                 f"{self.memlock} RoCE {self.ethernet}",
                 f"{self.environment}", f"from the start {self.at_start}", *map(str, events)]
        return "\n  ".join(lines)


class Soak:
    def __init__(self, options):
        self.options = options
        self.happened = collections.Counter()

    def run_one(self, seed, standby):
        """Returns its verdict, and what a person needs to know."""
        draw = Draw(seed)
        scenario = draw.scenario(standby)
        ends = [End(self.options, scenario, number) for number in range(2)]
        run = Run(scenario, ends)
        try:
            run.judge(*run.drive())
        finally:
            for end in ends:
                end.close()
        unused = any(text in run.text for text in ("the connections are not made", "'regMr']"))
        if unused and run.verdicts & {"error", "failed"}:
            run.verdicts.discard("hung")  # an end waits where the other one's connect() or regMr() has failed
        verdict = next((one for one in (*BAD, "error") if one in run.verdicts), "completed")
        text = f"{verdict}: {draw.text(standby)}{run.text}\n  logs: {ends[0].log} and -1"
        if verdict in BAD or self.options.keep:
            print(text, flush=True)
        for end in ends:
            self.happened.update(set(re.findall(r'fault (?:happens|caused): {.*?"kind":"(\w+)"',
                                                end.log.read_text(errors="replace"))))
            if verdict == "completed" and not self.options.keep:
                end.log.unlink()
        return verdict, text

    def run(self):
        """Returns whether all was as it should be."""
        seeds, (first, *others) = self.options.seeds, self.options.standby
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            runs = {(seed, standby): pool.submit(self.run_one, seed, standby)
                    for seed in seeds for standby in (first, *others)}
        verdicts = {key: future.result()[0] for key, future in runs.items()}
        print("happened at ends: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.happened.items())))
        columns = ("completed", "error", *BAD)
        print(f"{'standby rails':>13}", *(f"{column:>9}" for column in columns))
        for standby in (first, *others):
            counts = collections.Counter(verdicts[seed, standby] for seed in seeds)
            print(f"{standby:13}", *(f"{counts[column]:9}" for column in columns))
        # A merged device has no standby rails, so that its runs differ by chance alone.
        worse = [(seed, other) for seed in seeds for other in others if not Draw(seed).merged
                 and verdicts[seed, first] == "completed" != verdicts[seed, other]]
        print(f"survived with {first} standby rails, but not with others: {len(worse)}")
        for key in worse:
            print(f"seed {key[0]}: {runs[key].result()[1]}")
        return not worse and not any(verdict in BAD for verdict in verdicts.values())


def seeds_of(text):
    """3, or 1..500."""
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="build folder")
    parser.add_argument("--seeds", type=seeds_of, nargs="+", required=True, help="such as 17 or 1..500")
    parser.add_argument("--standby", type=int, nargs="+", default=[1], help="numbers of standby rails")
    parser.add_argument("--jobs", type=int, default=6, help="runs at a time")
    parser.add_argument("--keep", action="store_true", help="print every run, and keep its logs")
    options = parser.parse_args()
    options.seeds = [seed for seeds in options.seeds for seed in seeds]
    return run_in_folder(Soak, options)


if __name__ == "__main__":
    sys.exit(main())
