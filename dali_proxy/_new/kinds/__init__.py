"""The first part of a script, for each kind of data: datasets, pipelines, network, loss, score and generated data."""
