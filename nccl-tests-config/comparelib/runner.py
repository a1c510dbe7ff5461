"""Runs the programs over all sides in alternating rounds, and collects their results."""

import dataclasses
import os
import platform
import shlex
import sys

from comparelib import (launch, machine_facts, nccl_log, options as command_line, perf_json,
                        perf_table, preset, progress, rounds, session as sessions, verdict)


def _keeps_neighbours_apart(name, value):
    """Whether NCCL then has no NVLink (NCCL_P2P_*) or no shared memory between ranks of one node."""
    if name == "NCCL_P2P_LEVEL":
        return value in ("LOC", "0")
    return value == "1"


def _origin_and_fix(name, value, transport, options):
    if os.environ.get(name) == value:
        return "it is set in this shell", f"unset {name}"
    if options.preset and launch.environment([str(options.preset.env_file)], {}).get(name) == value:
        return (f"the preset {options.preset.name} sets it",
                f"leave out --preset {options.preset.name}; what else it sets can be given alone, as by --softhca DIR")
    return f"{transport.env_file} sets it", "remove it there"


def _check_neighbours(env, transport, options):
    """Raises LaunchError where neighbours would use the network, against what --ranks-per-node promises."""
    for name in ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE"):
        value = env.get(name)
        if value is not None and _keeps_neighbours_apart(name, value):
            origin, fix = _origin_and_fix(name, value, transport, options)
            raise launch.LaunchError(
                f"{name}={value} ({origin}) makes neighbours use the network, and with --ranks-per-node "
                f"{options.ranks_per_node} they are to use NVLink and shared memory: {fix}")


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
        if not options.softhca_is_there:
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
        env.pop("GDR_RANKS_PER_NODE", None)  # each rank is a node, whatever the shell has for one_host_rank
    return env


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


def _table(outcome, json_file):
    """The table of the JSON where the program wrote it, else of the text; and a note, or None."""
    text = perf_table.parse(outcome.stdout)
    if json_file is None:
        return text, None
    try:
        found = perf_json.parse(json_file.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return text, "wrote no JSON here (no -J before nccl-tests 2.17.3, or another host has it); its text was read"
    except perf_json.JsonError as error:
        return text, f"{json_file.name} cannot be read ({error}); its text was read"
    return dataclasses.replace(found, version=text.version, devices=text.devices or found.devices,
                               hosts=text.hosts or found.hosts), None


def _stderr_end(outcome, table):
    failed = outcome.exit_code != 0 or not table.rows
    return tuple(nccl_log.last_other_lines(outcome.stderr)) if failed else ()


def _warn_of_gaps(options):
    asked = command_line.asked_sizes(options)
    if asked is None:
        return
    for gap in preset.gaps(options.preset, options.ranks, options.programs, set(asked)):
        print(f"compare: {gap}", file=sys.stderr)


class Runner:
    def __init__(self, options):
        self.options = options
        self.notes = []
        self.runs = []
        self.interrupted = False

    def _transport(self, side):
        name = self.options.base if side == self.options.control else side
        return self.options.transports[name]

    def _run_once(self, program, side, repeat, shown):
        options, transport = self.options, self._transport(side)
        env = run_environment(transport, options)
        stem = f"{program}.{side}.{repeat + 1}"
        # nccl-tests keeps a file that exists, and writes to another name.
        (options.output / f"{stem}.json").unlink(missing_ok=True)
        json_file = options.output / f"{stem}.json" if options.json else None
        arguments = _arguments(options) + (["-J", str(json_file.resolve())] if json_file else [])
        words = launch.command(launch.find_program(program), arguments, options, env)
        shown.begin(f"{program} over {side}, round {repeat + 1} of {options.repeat}")
        outcome = launch.run(words, env, options.timeout, shown.line)
        (options.output / f"{stem}.out").write_text(outcome.stdout)
        (options.output / f"{stem}.err").write_text(outcome.stderr)
        table, note = _table(outcome, json_file)
        if note:
            self.notes.append(f"{stem} {note}.")
        log = nccl_log.parse(outcome.stdout + "\n" + outcome.stderr)
        left_out = verdict.reasons_to_leave_out(
            table, log, transport.network, transport.wanted_gpudirect(options.gpudirect))
        return sessions.Run(program, side, repeat,
                            shell_line(words, env), table, log, outcome.seconds, left_out,
                            verdict.defects(table, outcome), f"{stem}.out", _stderr_end(outcome, table))

    def run(self):
        """All runs; after an interrupt, those that had ended."""
        sides = self.options.sides
        plan = list(rounds.schedule(sides, self.options.repeat, self.options.programs))
        shown = progress.Progress([(program, side) for _, program, side in plan])
        try:
            for repeat, program, side in plan:
                run = self._run_once(program, side, repeat, shown)
                self.runs.append(run)
                shown.end("; ".join(run.problems) or "ok")
        except KeyboardInterrupt:
            if not self.runs:
                raise
            shown.end("interrupted")
            self.interrupted = True
            self.notes.append(f"Interrupted after {len(self.runs)} of {len(plan)} runs.")
        return self.runs


def run_session(options):
    """(the session, whether it was interrupted)"""
    if options.preset:
        _warn_of_gaps(options)
    runner = Runner(options)
    runs = sessions.separate_kinds(runner.run())
    runner.notes += sessions.table_notes(runs)
    session = sessions.Session(
        runs, options.sides, options.base, options.control, options.place == "in", options.repeat, {
            "date": sessions.now(),
            "host": platform.node(),
            "arguments": shlex.join(options.extra) or "none",
            "mode": options.mode,
            "ranks": options.ranks,
            "one_host": options.one_host,
            "ranks_per_node": options.ranks_per_node,
            "gpudirect": options.gpudirect,
            "softhca": bool(options.softhca),
            "preset": options.preset.name if options.preset else None,
            "asked_sizes": command_line.asked_sizes(options),
            "versions": machine_facts.versions()
        }, runner.notes)
    return session, runner.interrupted
