"""A folder for `PYTHONPATH`, so that the processes of such scripts import our modules, too."""
