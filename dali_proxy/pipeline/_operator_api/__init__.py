"""The interface between an operator's implementation and the executor. Contributors read this first."""
