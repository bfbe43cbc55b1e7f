"""The submitting side: the proxy, its inputs, placeholders, and the process's connection to a server."""
