"""`DataLoader`: numbered batches, queues to workers, collation, resuming and recovery."""
