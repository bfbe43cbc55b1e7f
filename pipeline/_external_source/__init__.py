"""Sources that users write: functions, iterables and generators that feed a pipeline, here or in worker processes."""
