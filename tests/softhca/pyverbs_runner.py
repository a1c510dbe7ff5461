#!/usr/bin/env python3
"""Runs rdma-core's test suite in this process and writes [id, outcome, reason] of each test as JSON.

pyverbs_runner.py FOLDER RESULTS SEED     FOLDER has the suite in `tests`

An outcome is "passed", "failure", "error" or "skipped". The generator of random numbers is seeded before
each test, so that what a test chooses depends neither on its predecessors nor on the run.
"""
import json
import random
import sys
import unittest


class Recorder(unittest.TestResult):

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.results = []

    def record(self, test, outcome, reason=""):
        self.results.append([test.id(), outcome, reason])

    def startTest(self, test):
        super().startTest(test)
        random.seed(f"{self.seed} {test.id()}")

    def addSuccess(self, test):
        self.record(test, "passed")

    def addSkip(self, test, reason):
        self.record(test, "skipped", reason)

    def addFailure(self, test, err):
        self.record(test, "failure", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        self.record(test, "error", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(subtest, err)

    def addExpectedFailure(self, test, err):
        self.record(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.record(test, "failure", "succeeded, but a failure was expected")


def main():
    folder, results, seed = sys.argv[1:]
    sys.argv[1:] = []
    # The suite imports itself as the package `tests`, but its parser of options as a module.
    sys.path[:0] = [folder, f"{folder}/tests"]
    from args_parser import parser  # pylint: disable=import-error,import-outside-toplevel
    parser.parse_args()
    import tests  # pylint: disable=import-error,import-outside-toplevel

    recorder = Recorder(seed)
    unittest.defaultTestLoader.loadTestsFromModule(tests).run(recorder)
    with open(results, "w", encoding="utf-8") as file:
        json.dump(recorder.results, file)


main()
