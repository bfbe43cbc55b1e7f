"""The interface between operators and the executor: base classes, inputs and outputs. Contributors read this first."""
