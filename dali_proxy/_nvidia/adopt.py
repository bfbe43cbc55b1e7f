"""Conversion of pipelines of NVIDIA's package, which keep NVIDIA's operators."""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline import Pipeline, fn
from dali_proxy.pipeline._graph.nodes import apply_operator
from dali_proxy.pipeline.errors import SerializationError


def is_nvidia_pipeline(value: Any) -> bool:
    """Return whether an object is a pipeline of NVIDIA's package or of a derived class. This imports nothing."""
    return any(cls.__module__ == "nvidia.dali.pipeline" and cls.__name__ == "Pipeline" for cls in type(value).__mro__)


def adopt(nvidia: Any) -> Pipeline:
    """Return a pipeline that runs a pipeline of NVIDIA's package, with the same inputs and outputs.

    The server's process gets it in serialized form, so its graph can't hold Python callables.

    Args:
        nvidia: an `nvidia.dali.Pipeline`, built or not.

    Raises:
        SerializationError: its graph holds callables.

    Example:
        >>> import nvidia.dali, dali_proxy  # doctest: +SKIP
        >>> with dali_proxy.DALIServer(image_pipe(batch_size=64, num_threads=4, device_id=0)) as server:
        ...     loader = dali_proxy.DataLoader(server, Images(server.proxy), batch_size=64, num_workers=4)
    """
    try:
        serialized = nvidia.serialize()
    except Exception as error:
        raise SerializationError(
            f"this pipeline of NVIDIA DALI can't be sent to a server: it contains Python callables, or its device is "
            f"missing: {error}"
        ) from error
    if nvidia._input_callbacks or nvidia._parallel_input_callbacks:
        raise SerializationError(
            "this pipeline of NVIDIA DALI has an external_source with a source=, which can't be sent to a server: "
            "leave the source out, and the proxy feeds it"
        )
    # DALI has no public interface for the names of the external sources.
    names = [each.name for each in nvidia._ops if str(each.spec).startswith("OpSpec for ExternalSource:")]
    pipeline = Pipeline(batch_size=nvidia.max_batch_size, num_threads=nvidia.num_threads, device_id=nvidia.device_id)
    with pipeline:
        inputs = [fn.external_source(name=name, no_copy=True) for name in names]
        arguments = {"serialized": serialized, "input_names": names, "output_count": nvidia.num_outputs}
        device = "cpu" if nvidia.device_id is None else "mixed"
        outputs = apply_operator("nvidia_pipeline", inputs, {**arguments, "device": device})
        pipeline.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    return pipeline
