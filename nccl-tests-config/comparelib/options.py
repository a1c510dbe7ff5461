"""The command line of compare."""

import argparse
import datetime
import os
import pathlib

from comparelib import launch, preset, reader, report, session as sessions, transports

_DESCRIPTION = """\
Compares transports of NCCL by the programs of nccl-tests (2.17.3 or later):
runs them over several transports in alternating rounds, or reads results that
exist (--read). Writes a table and plots, and can judge the result by a
preset's expected figures."""
_EPILOG = """\
Arguments after -- are passed to the programs unchanged.

example:
  compare --transports gdr,ib --collectives all_reduce --rounds 5 --control

exit status: 0 as requested; 1 wrong results, a run over another transport than
the requested one or that ended early, or a preset's figure that is not reached;
2 an option or a file cannot be used; 3 stdout cannot be written;
130 interrupted"""


def word_list(text):
    return [word for word in text.split(",") if word]


def program_list(text):
    return [name if name.endswith("_perf") else f"{name}_perf" for name in word_list(text)]


def _add_what(parser):
    add = parser.add_argument_group("what is compared").add_argument
    known = ", ".join(transports.known())
    add("--transports", type=word_list, default=["gdr", "ib", "socket"], metavar="LIST",
        help=f"of {known} (files env/*.env), or paths of files of your own; default gdr,ib,socket")
    add("--plugin", action="append", default=[], metavar="NAME",
        help="also any other plugin, by NCCL_NET_PLUGIN=NAME; may be repeated")
    add("--base",
        help="transport that the others are compared with (default: ib if present, else the last)")
    add("--control", action="store_true",
        help="measure the base twice in every round: what it differs from itself is noise")
    add("--collectives", dest="programs", type=program_list, metavar="LIST",
        help="all_reduce,alltoall,...: the programs without _perf, found by NCCL_TESTS_DIR or PATH (default "
        "all_reduce,sendrecv)")
    add("--rounds", type=int, default=1, metavar="R",
        help="each over all transports in a rotating order; tables show medians (default 1)")
    add("--read", nargs="+", action="extend", default=[], metavar="NAME=FILE",
        help="run nothing, but read results that nccl-tests wrote by -J: NAME=FILE FILE..., each file a round")


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
    add("--ranks-per-node", type=int, default=1, metavar="N",
        help="how many ranks of one host take each other for neighbours, which use NVLink and shared memory "
        "between them; with --mode processes (default 1: each is a node of its own). N above 1 needs two nodes or "
        "more, and so a --ranks above the default 2: 4 for N = 2")
    add("--softhca", metavar="DIR", help="use the software HCA, the libibverbs.so.1 in DIR")
    add("--gpudirect", choices=transports.GPUDIRECT, default="auto",
        help="force it on or off, and check that the log agrees (default: as NCCL decides)")
    add("--timeout", type=float, default=900, metavar="S", help="seconds for a run (default 900)")


def _add_results(parser):
    add = parser.add_argument_group("results").add_argument
    add("--place", choices=["out", "in"], default="out",
        help="half of the results that the tables show")
    add("--output", type=pathlib.Path, metavar="DIR", help="default nccl-compare-<date>-<time>")
    add("--preset", metavar="NAME",
        help="settings of presets/NAME.env on top of each transport's, and its expected bus bandwidths: exit "
        "status 1 if gdr (else the base) is more than 10 %% below one")


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
    except (launch.LaunchError, reader.ReadError) as error:
        return parser.error(str(error))


def _checked(parser, options):
    if options.preset is not None:
        options.preset = preset.load(options.preset)
    if options.read:
        options.read = reader.inputs(options.read)
        options.sides = list(options.read)
    else:
        _check_run(parser, options)
    if options.base is None:
        options.base = "ib" if "ib" in options.sides else options.sides[-1]
    if options.base not in options.sides:
        parser.error(f"--base {options.base} is not among the transports")
    name = sessions.control_name(options.base)
    if options.control and name not in options.sides:
        if options.read:
            parser.error(
                f"--control needs files of the base's second measurement: --read {name}=FILE...")
        options.sides.append(name)
    options.control = name if name in options.sides else None
    options.judge = "gdr" if "gdr" in options.sides else options.base
    if options.output is None:
        options.output = pathlib.Path(
            datetime.datetime.now().strftime("nccl-compare-%Y%m%d-%H%M%S"))
    return options


def _check_nodes(parser, options):
    each = options.ranks_per_node
    if each == 1:
        return
    if not options.one_host or options.mode != "processes":
        parser.error("--ranks-per-node divides the ranks of one host into nodes, and needs --mode processes without "
                     "--hostfile and --no-one-host")
    if not 0 < each < options.ranks or options.ranks % each:
        parser.error(f"--ranks-per-node {each}: the {options.ranks} ranks of --ranks cannot be two nodes or more of "
                     f"{each} each: give a divisor of --ranks below it")


def _check_sizes(parser, options):
    if options.end is None:
        figures = [one.bytes for one in (options.preset.results if options.preset else [])
                   if one.nodes * one.gpus_per_node == options.ranks]
        options.end = str(max(figures)) if figures else "128M"
    for name in ("begin", "end", "factor"):
        try:
            report.size_of(getattr(options, name))
        except ValueError:
            parser.error(f"--{name}: {getattr(options, name)!r} is not a size such as 8, 128M or 1G")


def _check_run(parser, options):
    options.transports = transports.find(options.transports, options.plugin)
    options.sides = list(options.transports)
    if options.programs is None:
        options.programs = ["all_reduce_perf", "sendrecv_perf"]
    if not options.sides or not options.programs or options.ranks < 2 or options.rounds < 1:
        parser.error("needs a transport, a program, at least 2 ranks and 1 round")
    _check_sizes(parser, options)
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
