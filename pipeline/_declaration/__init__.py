"""Operator schemas and the registry of all operators."""
