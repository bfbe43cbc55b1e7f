"""Operators on bounding boxes, masks, points and the transforms that move them."""
