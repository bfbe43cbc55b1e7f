"""Modules that several packages share: nested structures, policies, signals, exits of processes."""
