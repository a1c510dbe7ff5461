"""What nccl-gdr-burn-in consists of."""
