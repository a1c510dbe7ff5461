"""Measures all cases of a run, here or with the other machine, and prints what is found."""

import contextlib
import sys

from burn_in import partner, perf, plan, report, verdict
from burn_in.rails import Failure
from burn_in.plan import Case
from burn_in.verdict import Result


def run(options, rails, nccl_gdr):
    """Returns the exit status. Raises Failure."""
    if options.mode == "remote":
        return _with_other_machine(options, rails, nccl_gdr)
    cases = plan.local(rails.usable) if options.mode == "local" else plan.loopback(rails.usable)
    return _finish(options, measure(cases, perf.Here(nccl_gdr)) + _down(rails))


def _with_other_machine(options, rails, nccl_gdr):
    if options.rank == 1:
        return partner.serve(partner.connect(options.root, rails.usable), nccl_gdr)
    link = partner.accept(options.root[1], rails.usable)
    status = 3
    try:
        cases = plan.remote(rails.usable, link.rails)
        results = measure(cases, partner.There(link, nccl_gdr)) + _down(rails)
        results += [Result(name, verdict=verdict.FAILURE, text="only one machine can use it",
                           fix="nccl-gdr doctor --check port-state on both; NCCL_IB_HCA chooses "
                               "the same ports")
                    for name in plan.unpaired(rails.usable, link.rails)]
        status = _finish(options, results)
    finally:
        with contextlib.suppress(Failure):
            link.send({"exit_status": status})
    return status


def _down(rails):
    return [Result(name, verdict=verdict.FAILURE, text=reason,
                   fix="nccl-gdr doctor --check port-state; NCCL_IB_HCA leaves out a port that is "
                       "meant to be down")
            for name, reason in rails.down]


def _finish(options, results):
    if not results:
        who = "neither machine has a rail" if options.mode == "remote" else "this machine has no rail"
        raise Failure(who, "nccl-gdr doctor and nccl-gdr topo say why. To try it without an HCA: "
                      f"nccl-gdr with-softhca nccl-gdr-burn-in {options.mode}")
    verdict.judge(results, options.expect)
    print(report.as_json(results, options.mode) if options.json else report.as_text(results))
    return verdict.exit_status(results)


def measure(cases, meter):
    """The results. Of two rails that do not reach each other only host memory has one, and the
    sender is then measured by itself."""
    results, unreached = [], set()
    for case in cases:
        if case.rails() in unreached:
            continue
        try:
            results.append(_measure_one(case, meter))
        except Failure as failure:
            return [*results, Result("the other rails", text=f"not measured: {failure.text}",
                                     fix=failure.fix)]
        if results[-1].is_reached is False:
            unreached.add(case.rails())
            if case.mode == "local":
                results.append(_measure_one(Case("loopback", case.first, case.first), meter))
    return results


def _measure_one(case, meter):
    print(f"burn-in: {case.subject()}", file=sys.stderr)
    result = Result(case.subject(), case)
    # The small messages go first: where none arrives, the rails do not reach each other.
    looks = not case.uses_gpu()
    try:
        if looks:
            result.latency_us = meter.measure(case, "latency")
            result.is_reached = True
        result.gbits = meter.measure(case, "bandwidth")
    except Failure as failure:
        if failure.ends:
            raise
        what = "not measured"
        if failure.is_transfer and looks and not result.is_reached and case.mode != "loopback":
            result.is_reached, what = False, "no message arrived"
        elif failure.is_transfer:
            result.verdict, what = verdict.FAILURE, "the transfer failed"
        result.text, result.fix = f"{what}: {failure.text}", failure.fix
    return result
