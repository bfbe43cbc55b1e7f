# Written by `python -m docs.stubs`.

"""Operators of `pipeline.ops.io`."""



from pipeline.ops.io import file as file

__all__ = ['file']

