"""The dataset workers of a server: processes that read batches for the loaders of all processes that use the server."""
