# Written by `python -m docs.stubs`.

"""Operators of `pipeline.fn.io`."""



from pipeline.fn.io import file as file

__all__ = ['file']

