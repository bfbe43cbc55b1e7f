"""User-defined sources: functions, iterables and generators that feed a pipeline."""
