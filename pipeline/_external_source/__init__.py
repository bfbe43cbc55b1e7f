"""Sources of users: functions, iterables and generators that feed a pipeline, in its process or in workers."""
