"""Runs nccl-tests over several transports and sets the results side by side."""
