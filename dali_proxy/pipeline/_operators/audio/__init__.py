"""Operators on audio and other signals."""
