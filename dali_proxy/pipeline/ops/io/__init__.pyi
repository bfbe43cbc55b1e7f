# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.io`."""



from dali_proxy.pipeline.ops.io import file as file

__all__ = ['file']

