"""Encoded videos: which frames there are, and exactly those, decoded."""
