"""A cache of decoded values: results of deterministic operators on encoded data, for later epochs and other jobs."""
