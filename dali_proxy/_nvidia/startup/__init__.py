"""A folder for `PYTHONPATH`, so that child processes of a script import dali-proxy's modules, too."""
