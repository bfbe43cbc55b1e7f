"""Operators that read datasets. Each has a `Loader` that knows its format; they share everything else."""
