"""`DataLoader`: batch numbers, worker queues, collation, resuming and recovery."""
