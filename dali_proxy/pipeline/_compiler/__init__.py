"""The compiler: turn a graph into executable phases, fuse operators, and plan work for the consumer's GPU."""
