# Written by `python -m docs.stubs`.

from dali_proxy.pipeline.ops.experimental.readers import *
