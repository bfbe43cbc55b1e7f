# Written by `python -m docs.stubs`.
# fmt: off
# ruff: noqa

"""Operators of `pipeline.ops.io`."""



from pipeline.ops.io import file as file

__all__ = ['file']

