"""What an operator declares: its schema, and the registry of all operators."""
