"""`Pipeline` and `pipeline_def`: a user's definition of a pipeline, and how it runs."""

from dali_proxy.pipeline._definition.conditional import do_not_convert
from dali_proxy.pipeline._definition.decorator import pipeline_def
from dali_proxy.pipeline._definition.pipeline import Pipeline
from dali_proxy.pipeline._definition.policies import OperatorConcurrency, StreamPolicy

__all__ = ["OperatorConcurrency", "Pipeline", "StreamPolicy", "do_not_convert", "pipeline_def"]
