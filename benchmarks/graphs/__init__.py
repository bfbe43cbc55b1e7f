"""Whole graphs beside NVIDIA DALI's: one definition of each graph serves both libraries."""
