"""The command line of compare."""

import argparse
import datetime
import os
import pathlib
import re

from comparelib import baseline, launch, preset, reader, report, session as sessions, transports

_DESCRIPTION = """\
Compares transports of NCCL by the programs of nccl-tests: runs them over several transports in alternating
rounds, or reads outputs that exist (--read). Writes a table, plots and a page, and can judge the result
by a preset's expected figures or by the results of an earlier day."""
_EPILOG = """\
Arguments after -- are passed to the programs unchanged. Exit status: 0 as requested; 1 wrong results, a run
over another transport than the requested one or that ended early, a preset's figure that is not
reached, or a size slower than the baseline; 2 an option or a file cannot be used; 130 interrupted."""


def word_list(text):
    return [word for word in text.split(",") if word]


def share(text):
    """0.05 of "5%" or "5"."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*%?", text)
    if match is None or not 0 <= float(match[1]) < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage such as 5%")
    return float(match[1]) / 100


def _add_what(parser):
    group = parser.add_argument_group("what is compared")
    add = group.add_argument
    known = ", ".join(transports.known())
    add("--transports", type=word_list, default=None, metavar="LIST",
        help=f"of {known} (files env/*.env), or paths of files of your own; default gdr,ib,socket")
    add("--plugin", action="append", default=[], metavar="NAME",
        help="also any other plugin, by NCCL_NET_PLUGIN=NAME; may be repeated")
    add("--base",
        help="transport that the others are compared with (default: ib if present, else the last)")
    add("--control",
        action="store_true",
        help="measure the base twice in every round: what it differs from itself "
        "is noise")
    add("--collectives",
        type=word_list,
        metavar="LIST",
        help="all_reduce,alltoall,...: programs without _perf")
    add("--programs", type=word_list, metavar="LIST",
        help="default all_reduce_perf,sendrecv_perf; found by NCCL_TESTS_DIR or PATH")
    add("--repeat",
        "--rounds",
        type=int,
        default=None,
        metavar="R",
        help="rounds, each over all transports in a rotating order; tables show medians (default 1)"
       )
    add("--read",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=FILE",
        help=
        "run nothing, but read outputs of nccl-tests (text, or JSON of -J): NAME=FILE FILE..., each file a "
        "round; or the output folder of an earlier comparison")
    add("--force",
        action="store_true",
        help="compare runs or a baseline of different machines, ranks or sizes, too")


def _add_runs(parser):
    add = parser.add_argument_group("how it is run").add_argument
    add("--begin", default="8", help="smallest size (default 8)")
    add("--end", help="largest size (default 128M, or the largest expected figure of the preset)")
    add("--factor", default="2", help="step between sizes (default 2)")
    add("--iters", default="20", help="timed iterations a size (default 20)")
    add("--warmup", default="5", help="iterations before those (default 5)")
    add("--ranks", type=int, default=2, help="GPUs in all (default 2)")
    add("--mode", choices=["threads", "processes"], default="threads",
        help="one process that drives all GPUs, or mpirun with one process a GPU")
    add("--hostfile", help="run on these hosts through mpirun (implies --mode processes)")
    add("--one-host", action=argparse.BooleanOptionalAction, default=None,
        help="make the ranks of one host use the network (default without --hostfile)")
    add("--ranks-per-node", type=int, default=None, metavar="N",
        help="how many ranks of one host take each other for neighbours, which use NVLink and shared memory "
        "between them; with --mode processes (default 1: each is a node of its own). N above 1 needs two nodes or "
        "more, and so a --ranks above the default 2: 4 for N = 2")
    add("--softhca", metavar="DIR", help="use the software HCA, the libibverbs.so.1 in DIR")
    add("--gpudirect", choices=transports.GPUDIRECT, default="auto",
        help="force it on or off, and check that the log agrees (default: as NCCL decides)")
    add("--json",
        action="store_true",
        help="let the programs write JSON, too (-J, nccl-tests 2.17.3 and later), and "
        "read that: it has more digits")
    add("--timeout", type=float, default=900, metavar="S", help="seconds for a run (default 900)")


def _add_results(parser):
    add = parser.add_argument_group("results").add_argument
    add("--place",
        choices=["out", "in"],
        default="out",
        help="half of the results that the tables show")
    add("--output", type=pathlib.Path, metavar="DIR", help="default nccl-compare-<date>-<time>")
    add("--preset",
        metavar="NAME",
        help="settings of presets/NAME.env on top of each transport's, and its expected "
        "bus bandwidths: exit status 1 if they are not reached")
    add("--preset-tolerance", type=share, default=preset.TOLERANCE, metavar="PERCENT",
        help="how far below an expected figure passes (default 10%%)")
    add("--judge",
        metavar="NAME",
        help="the transport whose figures decide (default gdr, else the base)")
    add("--save-baseline",
        type=pathlib.Path,
        metavar="FILE",
        help="keep the results for a later --baseline")
    add("--baseline",
        type=pathlib.Path,
        metavar="FILE",
        help="exit status 1 if a size is slower than in FILE")
    add("--tolerance", type=share, default=baseline.TOLERANCE, metavar="PERCENT",
        help="how much slower than the baseline passes (default 5%%)")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="compare", description=_DESCRIPTION, epilog=_EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    _add_what(parser)
    _add_runs(parser)
    _add_results(parser)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    options.extra = arguments[split + 1:]
    try:
        return _checked(parser, options)
    except (launch.LaunchError, reader.ReadError, baseline.BaselineError) as error:
        return parser.error(str(error))


def _checked(parser, options):
    if options.preset is not None:
        options.preset = preset.load(options.preset)
    if options.baseline is not None:
        options.baseline_record = baseline.load(options.baseline)
    if options.save_baseline is not None:
        baseline.check_target(options.save_baseline)
    if options.collectives:
        if options.programs:
            parser.error("--collectives and --programs name the same; give one of them")
        options.programs = [
            name if name.endswith("_perf") else f"{name}_perf" for name in options.collectives
        ]
    if options.read:
        _check_read(parser, options)
    else:
        _check_run(parser, options)
    if options.base is None:
        options.base = "ib" if "ib" in options.sides else options.sides[-1]
    if options.base not in options.sides:
        parser.error(f"--base {options.base} is not among the transports")
    _add_control(parser, options)
    if options.judge is None:
        options.judge = "gdr" if "gdr" in options.sides else options.base
    if options.judge not in options.sides:
        parser.error(f"--judge {options.judge} is not among the transports")
    if options.baseline is not None and not options.read and not options.force:
        _check_baseline(options)
    if options.output is None:
        options.output = pathlib.Path(
            datetime.datetime.now().strftime("nccl-compare-%Y%m%d-%H%M%S"))
    return options


def asked_sizes(options):
    """The sizes that nccl-tests will measure, before it rounds them to whole elements; None where arguments
    after -- may change them."""
    if any(re.match(r"-[befi]|--(min|max|step)", word) for word in options.extra):
        return None
    size, end, factor = (report.size_of(text) for text in (options.begin, options.end, options.factor))
    found = []
    while 0 < size <= end:
        found.append(size)
        size = size * factor if factor > 1 else end + 1
    return found


def _check_baseline(options):
    """What makes the runs incomparable with the baseline is an error before they start."""
    machine = {"ranks": options.ranks, "mode": options.mode, "one_host": options.one_host,
               "ranks_per_node": options.ranks_per_node, "softhca": bool(options.softhca)}
    plan = {(side, program) for side in options.sides for program in options.programs}
    place = "in place" if options.place == "in" else "out of place"
    found = baseline.planned_obstacles(machine, place, plan, asked_sizes(options),
                                       options.baseline_record)
    if found:
        raise baseline.BaselineError(baseline.not_comparable(options.baseline, found))


def _add_control(parser, options):
    name = sessions.control_name(options.base)
    if options.control and name not in options.sides:
        if options.read:
            parser.error(
                f"--control needs files of the base's second measurement: --read {name}=FILE...")
        options.sides.append(name)
    options.control = name if name in options.sides else None


def _check_read(parser, options):
    for given, name in ((options.transports, "--transports"), (options.plugin, "--plugin"),
                        (options.repeat, "--repeat"), (options.softhca,
                                                       "--softhca"), (options.extra, "--")):
        if given:
            parser.error(f"--read takes the runs as they are; leave out {name}")
    options.read = reader.inputs(options.read)
    options.sides = list(options.read)


def _check_nodes(parser, options):
    if options.ranks_per_node is None:
        options.ranks_per_node = 1
    elif not options.one_host or options.mode != "processes":
        parser.error("--ranks-per-node divides the ranks of one host into nodes, and needs --mode processes without "
                     "--hostfile and --no-one-host")
    elif not 0 < options.ranks_per_node < options.ranks or options.ranks % options.ranks_per_node:
        possible = [str(each) for each in range(1, options.ranks) if options.ranks % each == 0]
        more = f", or --ranks {2 * options.ranks_per_node}" if options.ranks_per_node > 0 else ""
        parser.error(f"--ranks-per-node {options.ranks_per_node}: the {options.ranks} ranks of --ranks cannot be two "
                     f"nodes or more of {options.ranks_per_node} each: give {' or '.join(possible)}{more}")


def _check_run(parser, options):
    words = options.transports if options.transports is not None else ["gdr", "ib", "socket"]
    options.transports = transports.find(words, options.plugin)
    options.sides = list(options.transports)
    if options.programs is None:
        options.programs = ["all_reduce_perf", "sendrecv_perf"]
    options.repeat = 1 if options.repeat is None else options.repeat
    if not options.sides or not options.programs or options.ranks < 2 or options.repeat < 1:
        parser.error("needs a transport, a program, at least 2 ranks and 1 repeat")
    if options.end is None:
        figures = [one.bytes for one in (options.preset.results if options.preset else [])
                   if one.nodes * one.gpus_per_node == options.ranks]
        options.end = str(max(figures)) if figures else "128M"
    for name in ("begin", "end", "factor"):
        try:
            report.size_of(getattr(options, name))
        except ValueError:
            parser.error(f"--{name}: {getattr(options, name)!r} is no size such as 8, 128M or 1G")
    if options.hostfile:
        if not os.path.isfile(options.hostfile):
            parser.error(f"--hostfile: there is no file {options.hostfile}")
        options.mode = "processes"
    if options.one_host is None:
        options.one_host = not options.hostfile
    _check_nodes(parser, options)
    if options.softhca:
        options.softhca = os.path.abspath(options.softhca)
        if not os.path.exists(os.path.join(options.softhca, "libibverbs.so.1")):
            parser.error(f"--softhca: there is no libibverbs.so.1 in {options.softhca}")
    # A preset or the caller's shell may ask for it as well.
    files = [str(options.preset.env_file)] if options.preset else []
    there = launch.software_hca(launch.environment(files, {}))
    options.softhca_is_there = there is not None and options.softhca in (None, there)
    options.softhca = options.softhca or there
