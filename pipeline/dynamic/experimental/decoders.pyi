# Written by `python -m docs.stubs`.

from dali_proxy.pipeline.dynamic.experimental.decoders import *
