"""Operators that read data sets. Each has a `Loader` that knows the format; everything else they share."""
