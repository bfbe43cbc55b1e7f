# Written by `python -m docs.stubs`.

"""Operators of `pipeline.dynamic.io`."""



from pipeline.dynamic.io import file as file

__all__ = ['file']

