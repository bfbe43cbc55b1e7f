"""What several parts of the torch side use: nested structures, policies, signals, exits of processes."""
