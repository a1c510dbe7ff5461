"""Comparisons: the rounds of every kind of them, and reports of nccl-tests and of nccl-gdr perf."""
