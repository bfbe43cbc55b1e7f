"""Operators that read datasets. Each format has a `Loader`; the rest is shared."""
