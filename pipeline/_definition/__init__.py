"""What a user writes: pipelines and the decorator that makes them."""

from pipeline._definition.decorator import pipeline_def
from pipeline._definition.pipeline import Pipeline

__all__ = ["Pipeline", "pipeline_def"]
