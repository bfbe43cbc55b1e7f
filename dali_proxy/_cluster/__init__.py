"""Servers on many machines: Ray actors that read, run the pipeline and return batches, and the pool of these actors."""
