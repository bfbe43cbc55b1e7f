# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.io`."""



from dali_proxy.pipeline.fn.io import file as file

__all__ = ['file']

