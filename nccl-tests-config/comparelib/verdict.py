"""Decides whether a run counts: correct results, over the requested transport.

A problem of either kind makes the whole comparison fail. A run whose numbers would stand for something
else (another transport, rows that nobody can assign) is also left out of the tables; one that has wrong
values, or failed at its end, stays in them.
"""

from comparelib import transports


def unusable(table):
    """The reasons why the table's numbers mean nothing."""
    if not table.rows:
        return ["no result" + "".join(f": {note}" for note in table.notes)]
    # Sizes are rounded down to whole elements of every rank, so that the smallest become 0, several times.
    sizes = [(row.size, row.kind) for row in table.rows if row.size > 0]
    if len(set(sizes)) != len(sizes):
        return [
            "a size is there more than once (several roots, or several cycles, -N, in one run?)"]
    return []


def _wrong(table):
    problems = [
        f"{row.wrong():g} wrong values at {row.size} B" for row in table.rows if row.wrong()]
    if table.out_of_bounds:
        problems.append(f"{table.out_of_bounds} values out of bounds")
    if table.rows and all(row.wrong() is None for row in table.rows):
        problems.append("no value was checked (-c 0?)")
    return problems


def _end(outcome):
    if outcome.exit_code is None:
        return [f"ran out of time after {outcome.seconds:.0f} s"]
    return [f"ended with exit code {outcome.exit_code}"] if outcome.exit_code else []


def _matches(found, network):
    """Whether a network of the log is the expected one; None expects any but NCCL's own."""
    return found not in transports.BUILT_IN if network is None else found == network


def _transport_problems(log, network):
    problems = []
    wanted = network or "the plugin's network"
    if not log.networks:
        problems.append(f"the log has no line 'Using network {network or '...'}'")
    for other in sorted(log.networks):
        if not _matches(other, network):
            problems.append(f"silent fallback: the log has 'Using network {other}', not {wanted}")
    if not log.channels:
        problems.append("no channel went over the network (NVLink, or shared memory?)")
    for other in sorted(log.channel_networks()):
        if not _matches(other, network):
            problems.append(f"silent fallback: channels went via NET/{other}, not NET/{wanted}")
    if network is None and len(log.networks) > 1:
        problems.append(f"the ranks used several networks: {', '.join(sorted(log.networks))}")
    return problems


def _gpudirect_problems(log, network, wanted):
    direct = {channel: ends for channel, ends in log.channels.items() if "/GDRDMA" in channel}
    # TCP has no GPUDirect, so a request for it does not apply to a Socket run.
    if wanted == "on" and network != "Socket":
        staged = sum(log.channels.values()) - sum(direct.values())
        if staged:
            return [f"{staged} ends of channels do not use GPUDirect (no GDRDMA in the log)"]
    if wanted == "off" and direct:
        return [f"{sum(direct.values())} ends of channels use GPUDirect, which was turned off"]
    return []


def reasons_to_leave_out(table, log, network, gpudirect):
    """Why the run's numbers may not be in the table; empty when they may."""
    return (unusable(table) + _transport_problems(log, network)
            + _gpudirect_problems(log, network, gpudirect))


def defects(table, outcome):
    """What is wrong with a run whose numbers are in the table all the same."""
    return _end(outcome) + _wrong(table)
