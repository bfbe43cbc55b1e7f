# Written by `python -m docs.stubs`.

from dali_proxy.pipeline.fn.inputs import *
