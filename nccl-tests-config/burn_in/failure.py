"""The error of everything that the burn-in does: what happened, and what to try."""

import re


class Failure(Exception):
    """`is_transfer`: data was lost or wrong, so that a rail is at fault and not the measurement.
    `ends`: nothing more can be measured, as where the other machine has left."""

    def __init__(self, text, fix="", is_transfer=False, ends=False):
        super().__init__(text)
        self.text, self.fix = text, fix
        self.is_transfer, self.ends = is_transfer, ends


def printable(text):
    """The text in one line and without control characters, which programs may print."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text).strip()
