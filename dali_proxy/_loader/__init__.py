"""`DataLoader`: numbered batches, queues to workers, collation, resume and recovery."""
