"""Observes running servers from other processes: finds them, and shows their reports in a terminal or a browser."""
