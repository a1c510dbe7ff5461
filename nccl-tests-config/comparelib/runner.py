"""Runs the programs over all sides in alternating rounds, and collects their results."""

import os
import pathlib
import platform
import shlex
import sys
import time

from comparelib import launch, nccl_log, perf_json, rounds, session as sessions, verdict


def _keeps_neighbours_apart(name, value):
    """Whether NCCL then has no NVLink (NCCL_P2P_*) or no shared memory between ranks of one node."""
    if name == "NCCL_P2P_LEVEL":
        return value in ("LOC", "0")
    return value == "1"


def _check_neighbours(env, transport, options):
    """Raises LaunchError where neighbours would use the network, against what --ranks-per-node promises."""
    for name in ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE"):
        value = env.get(name)
        if value is not None and _keeps_neighbours_apart(name, value):
            raise launch.LaunchError(
                f"{name}={value} makes neighbours use the network, and with --ranks-per-node "
                f"{options.ranks_per_node} they are to use NVLink and shared memory: it is set in this shell"
                f"{f', by the preset {options.preset.name}' if options.preset else ''} or in {transport.env_file}")


def run_environment(transport, options):
    files = [transport.env_file] if transport.env_file else []
    if options.preset:
        files.append(str(options.preset.env_file))
    settings = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
                "NCCL_DEBUG_FILE": "/dev/stderr", **transport.settings(options.gpudirect)}
    base = dict(os.environ)
    if transport.plugin:
        # A network that the caller's shell names would keep NCCL from the plugin's own.
        base.pop("NCCL_NET", None)
    if options.softhca:
        base["SOFTHCA_DIR"] = options.softhca
        files.append("softhca")
    if options.ranks_per_node > 1:
        settings["GDR_RANKS_PER_NODE"] = str(options.ranks_per_node)  # of one_host_rank
        # The GPUs of one machine are in one NVLink domain. Where it has a fabric (GB200), NCCL would connect the nodes
        # over NVLink, whatever NCCL_HOSTID is; NCCL_P2P_DISABLE, which one_host.env sets, implies that it does not
        # (init.cc, ncclParamMNNVLEnable). NVLink multicast stays on: without that connection, it ends at the node.
        settings["NCCL_MNNVL_ENABLE"] = "0"
    elif options.one_host:
        files.append("one_host")
    env = launch.environment(files, settings, base)
    if options.ranks_per_node > 1:
        _check_neighbours(env, transport, options)
    else:
        env.pop("GDR_RANKS_PER_NODE",
                None)  # each rank is a node, whatever the shell has for one_host_rank
    return env


def uses_softhca(options):
    """Whether the first libibverbs.so.1 that the runs find is the software HCA."""
    env = run_environment(next(iter(options.transports.values())), options)
    files = [pathlib.Path(folder) / "libibverbs.so.1" for folder in env.get("LD_LIBRARY_PATH", "").split(":")]
    first = next((file for file in files if file.is_file()), None)
    return first is not None and b"SOFTHCA_CONFIG" in first.read_bytes()


def check(options):
    """Raises LaunchError where a run of a transport could not be started."""
    for transport in options.transports.values():
        launch.command("", [], options, run_environment(transport, options))


def shell_line(words, env):
    """The run as a line to paste into a shell. It has every variable that decides what a run does, also those that
    were set before, and others where they differ from this environment."""
    removed = [name for name in sorted(os.environ) if launch.decides_runs(name) and name not in env]
    start = ["env", *(f"-u {name}" for name in removed)] if removed else []
    added = [f"{name}={shlex.quote(value)}" for name, value in sorted(env.items())
             if (launch.decides_runs(name) or os.environ.get(name) != value)
             and name not in ("_", "SHLVL", "PWD", "OLDPWD")]
    return " ".join(start + added + [shlex.join(words)])


def _arguments(options):
    return ["-b", options.begin, "-e", options.end, "-f", options.factor, "-n", options.iters,
            "-w", options.warmup, *options.extra]


def _stderr_end(outcome, table):
    failed = outcome.exit_code != 0 or not table.rows
    return tuple(nccl_log.last_other_lines(outcome.stderr)) if failed else ()


def outlook(seconds, plan):
    """When all will be done, by the mean of the runs that ended: "; 4 more take about 80 s"."""
    left = len(plan) - len(seconds)
    return f"; {left} more take about {left * sum(seconds) / len(seconds):.0f} s" if left and seconds else ""


class Runner:
    def __init__(self, options):
        self.options = options
        self.notes = []
        self.runs = []
        self.interrupted = False

    def _transport(self, side):
        name = self.options.base if side == self.options.control else side
        return self.options.transports[name]

    def _run_once(self, program, side, repeat):
        options, transport = self.options, self._transport(side)
        env = run_environment(transport, options)
        stem = options.output / f"{program}.{side}.{repeat + 1}"
        json_file = stem.with_name(f"{stem.name}.json").resolve()
        json_file.unlink(
            missing_ok=True)  # nccl-tests keeps a file that exists, and writes to another name
        words = launch.command(
            launch.find_program(program),
            [*_arguments(options), "-J", str(json_file)], options, env)
        outcome = launch.run(words, env, options.timeout)
        stem.with_name(f"{stem.name}.out").write_text(outcome.stdout)
        stem.with_name(f"{stem.name}.err").write_text(outcome.stderr)
        table = perf_json.load(json_file)
        log = nccl_log.parse(outcome.stdout + "\n" + outcome.stderr)
        left_out = verdict.reasons_to_leave_out(
            table, log, transport.network, transport.wanted_gpudirect(options.gpudirect))
        return sessions.Run(program, side, repeat, shell_line(words, env), table, log, outcome.seconds, left_out,
                            verdict.defects(table, outcome), json_file.name, _stderr_end(outcome, table))

    def run(self):
        """All runs; after an interrupt, those that had ended. The standard error shows which is under way."""
        plan = list(rounds.schedule(self.options.sides, self.options.rounds, self.options.programs))
        seconds = []
        try:
            for number, (repeat, program, side) in enumerate(plan, start=1):
                label = f"[{number}/{len(plan)}] {program} over {side}, round {repeat + 1} of {self.options.rounds}"
                print(f"{label} ...", file=sys.stderr, flush=True)
                began = time.monotonic()
                run = self._run_once(program, side, repeat)
                self.runs.append(run)
                seconds.append(time.monotonic() - began)
                print(f"{label}: {seconds[-1]:.0f} s, {'; '.join(run.problems) or 'ok'}{outlook(seconds, plan)}",
                      file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            if not self.runs:
                raise
            self.interrupted = True
            self.notes.append(f"Interrupted after {len(self.runs)} of {len(plan)} runs.")
        return self.runs


def run_session(options):
    """(the session, whether it was interrupted)"""
    runner = Runner(options)
    runs = sessions.separate_kinds(runner.run())
    facts = {
        "date": sessions.now(), "host": platform.node(), "arguments": shlex.join(options.extra),
        "mode": options.mode, "ranks": options.ranks, "one_host": options.one_host,
        "ranks_per_node": options.ranks_per_node, "softhca": uses_softhca(options), "gpudirect": options.gpudirect,
        "preset": options.preset.name if options.preset else None}
    session = sessions.Session(runs, options.sides, options.base, options.control,
                               options.place == "in", options.rounds, facts,
                               [*runner.notes, *sessions.table_notes(runs)])
    return session, runner.interrupted
