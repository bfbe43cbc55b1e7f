"""Worker processes that read sources: a pool, its workers, and what they say to each other."""
