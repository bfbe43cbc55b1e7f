"""The second part of a script, for each framework: training, validation, checkpoints and the command line."""
