"""Numbers that options take."""

import argparse


def positive(text):
    """The type of an option of argparse: a whole number from 1 on, as of rounds."""
    return _above_zero(text, int, "a whole number from 1 on")


def positive_real(text):
    """The type of an option of argparse: a number above 0, as of seconds."""
    return _above_zero(text, float, "a number above 0")


def _above_zero(text, kind, wanted):
    try:
        number = kind(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return number
