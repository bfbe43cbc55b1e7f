"""The operators: a folder for each family, a module for each operator or group of related operators."""
