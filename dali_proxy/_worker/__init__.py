"""The submitting side: the proxy, its inputs, placeholders, and a process's connection to a server."""
