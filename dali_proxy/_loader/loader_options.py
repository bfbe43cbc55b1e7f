"""The options of `DataLoader` that torch's class doesn't have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch.utils.data

if TYPE_CHECKING:
    from dali_proxy._common.policies import LastBatchPolicy
    from dali_proxy._consumer.produce import EarlierShapes
    from dali_proxy._consumer.ragged import Ragged
    from dali_proxy._loader.rescue import OnError
    from dali_proxy._loader.sample_costs import SampleCosts
    from dali_proxy._server.server import DALIServer


class LoaderOptions(torch.utils.data.DataLoader[Any]):
    """A loader with the options of `DataLoader`, which describes them."""

    dali_server: DALIServer
    last_batch_policy: LastBatchPolicy | None
    last_batch_padded: bool
    on_error: OnError
    ragged: Ragged | None
    batch_transform: Callable[[Any], Any] | None
    sample_log: str | None
    #: Whether the server reads the samples.
    _reads_in_server: bool
    #: Whether the pipeline's inputs are kept with each batch.
    _keeps_inputs: bool
    _earlier_shapes: EarlierShapes
    _sample_costs: SampleCosts
