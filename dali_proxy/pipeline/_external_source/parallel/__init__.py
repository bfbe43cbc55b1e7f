"""Sources in worker processes: a pool, its workers, and their messages."""
