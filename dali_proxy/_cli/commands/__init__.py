"""The subcommands of ``dali-proxy``. Each module defines a `COMMAND`, named after the module."""
