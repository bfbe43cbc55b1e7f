"""Operators on bounding boxes, points and the transforms that move them."""
