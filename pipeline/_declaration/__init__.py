"""Schemas of operators, and the registry of all operators."""
