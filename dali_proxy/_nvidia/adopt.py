"""Takes in pipelines that were made with NVIDIA's package: whoever has it keeps its operators."""

from __future__ import annotations

from typing import Any

from pipeline import Pipeline, fn
from pipeline._graph.nodes import apply_operator
from pipeline.errors import SerializationError

__all__ = ["adopt", "is_nvidia_pipeline"]


def is_nvidia_pipeline(thing: Any) -> bool:
    """Return whether something is a pipeline of NVIDIA's package, or of a class derived from that. Imports nothing."""
    return any(cls.__module__ == "nvidia.dali.pipeline" and cls.__name__ == "Pipeline" for cls in type(thing).__mro__)


def adopt(theirs: Any) -> Pipeline:
    """Return a pipeline of ours that runs one of NVIDIA's, with the same inputs and outputs.

    It goes to the server's process in serialized form, so its graph may not hold Python callables.

    Args:
        theirs: an `nvidia.dali.Pipeline`, built or not.

    Raises:
        SerializationError: its graph holds callables.

    Example:
        >>> import nvidia.dali, dali_proxy  # doctest: +SKIP
        >>> with dali_proxy.DALIServer(image_pipe(batch_size=64, num_threads=4, device_id=0)) as server:
        ...     loader = dali_proxy.DataLoader(server, Images(server.proxy), batch_size=64, num_workers=4)
    """
    try:
        serialized = theirs.serialize()
    except Exception as error:
        raise SerializationError(
            f"this pipeline of NVIDIA DALI can't be sent to a server: it contains Python callables, or its device is "
            f"missing: {error}"
        ) from error
    if theirs._input_callbacks or theirs._parallel_input_callbacks:
        raise SerializationError(
            "this pipeline of NVIDIA DALI has an external_source with a source=, which can't be sent to a server: "
            "leave the source out, and the proxy feeds it"
        )
    # DALI has no public way to ask for the names of the external sources.
    names = [each.name for each in theirs._ops if str(each.spec).startswith("OpSpec for ExternalSource:")]
    made = Pipeline(batch_size=theirs.max_batch_size, num_threads=theirs.num_threads, device_id=theirs.device_id)
    with made:
        inputs = [fn.external_source(name=name, no_copy=True) for name in names]
        arguments = {"serialized": serialized, "input_names": names, "output_count": theirs.num_outputs}
        device = "cpu" if theirs.device_id is None else "mixed"
        outputs = apply_operator("nvidia_pipeline", inputs, {**arguments, "device": device})
        made.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    return made
