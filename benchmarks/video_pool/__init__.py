"""Benchmarks of random frames of robots' videos: ``python -m benchmarks.video_pool --help``."""
