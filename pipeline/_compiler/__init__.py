"""Turns a graph into executable phases: placement, fusion, and plans for the consumer's GPU."""
