"""Decides whether a run counts: correct results, over the requested transport."""


def _result_problems(table, outcome):
    problems = []
    if outcome.exit_code is None:
        problems.append(f"ran out of time after {outcome.seconds:.0f} s")
    elif outcome.exit_code != 0:
        problems.append(f"ended with exit code {outcome.exit_code}")
    if not table.rows:
        return problems + ["printed no result"]
    for row in table.rows:
        if row.wrong():
            problems.append(f"{row.wrong():g} wrong values at {row.size} B")
    if table.out_of_bounds:
        problems.append(f"{table.out_of_bounds} values out of bounds")
    if len({row.size for row in table.rows}) != len(table.rows):
        problems.append("printed a size more than once (processes of programs built without MPI=1, "
                        "or several types or operators in one run?)")
    if all(row.wrong() is None for row in table.rows):
        problems.append("no value was checked (-c 0?)")
    return problems


def _transport_problems(log, network):
    problems = []
    if not log.networks:
        problems.append(f"the log has no line 'Using network {network}'")
    for other in sorted(log.networks - {network}):
        problems.append(f"silent fallback: the log has 'Using network {other}', not {network}")
    if not log.channels:
        problems.append("no channel went over the network (NVLink, or shared memory?)")
    for other in sorted(log.channel_networks() - {network}):
        problems.append(f"silent fallback: channels went via NET/{other}, not NET/{network}")
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


def problems(table, log, outcome, network, gpudirect):
    """The reasons why this run does not count, as texts; empty when it does."""
    return (_result_problems(table, outcome) + _transport_problems(log, network)
            + _gpudirect_problems(log, network, gpudirect))
