"""`DALIServer`: its lifetime, where the stages of its pipeline run, and its statistics."""
