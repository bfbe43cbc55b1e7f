# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.io`."""



from dali_proxy.pipeline.dynamic.io import file as file

__all__ = ['file']

