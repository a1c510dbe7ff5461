"""Ends a program whose standard output cannot be written, as on a full disk, with exit status 3 and the reason.

Python itself would end it with status 120 and a traceback, and with 0 where argparse printed or the caller has closed
standard output.

What cannot be written to standard error, such as progress, is dropped instead: a program's result does not depend on
it, and a traceback that nobody sees would end with 1, which has a meaning of its own.
"""

import atexit
import os
import pathlib
import signal
import sys

COULD_NOT_RUN = 3  # as nccl-gdr's


def _give_up(error):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is flushed from here on
    if isinstance(error, BrokenPipeError):  # nobody reads it any more: the end of any program behind `| head`
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    print(f"{pathlib.Path(sys.argv[0]).name}: cannot write to stdout: {error.strerror}", file=sys.stderr, flush=True)


def _checked(call):
    def call_or_exit(*arguments):
        try:
            return call(*arguments)
        except OSError as error:
            _give_up(error)
            atexit.register(os._exit, COULD_NOT_RUN)  # Python drops the status of an exit while it flushes
            sys.exit(COULD_NOT_RUN)
    return call_or_exit


def _dropped(call):
    def call_or_drop(*arguments):
        try:
            return call(*arguments)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what is buffered would fail again at the end
            return None
    return call_or_drop


def _flush_at_end():
    try:
        sys.stdout.flush()
    except SystemExit:  # which has no effect in here
        os._exit(COULD_NOT_RUN)


def watch():
    """Makes every print, and the end of this process, check standard output; none fails for standard error."""
    if sys.stdout is None:  # closed by the caller (>&-): a file that is not for writing fails as it should
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:  # print() would then write to standard output
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # pylint: disable=consider-using-with
    for name in ("write", "flush"):
        setattr(sys.stdout, name, _checked(getattr(sys.stdout, name)))
        setattr(sys.stderr, name, _dropped(getattr(sys.stderr, name)))
    atexit.register(_flush_at_end)
