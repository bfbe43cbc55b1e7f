"""Kernels for audio and other signals."""
