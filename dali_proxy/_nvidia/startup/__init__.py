"""A folder for `PYTHONPATH`, so that processes which a script starts import our modules, too."""
