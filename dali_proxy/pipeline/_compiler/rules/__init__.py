"""Rules of the compiler: each makes steps that run several operators as one, with the same results."""

from __future__ import annotations

from dali_proxy.pipeline._compiler.rules.equal_operators import stack_equal_operators
from dali_proxy.pipeline._compiler.rules.fused_images import fuse_images
from dali_proxy.pipeline._compiler.rules.joint_draws import join_draws
from dali_proxy.pipeline._compiler.rules.joint_uploads import join_uploads
from dali_proxy.pipeline._compiler.rules.postponed_rows import postpone_rows
from dali_proxy.pipeline._compiler.rules.prepared_step import prepare_launches
from dali_proxy.pipeline._compiler.rules.tabulated_operators import tabulate_operators

__all__ = ["RULES"]

#: The rules in order.
RULES = (
    fuse_images,
    join_draws,
    join_uploads,
    postpone_rows,
    tabulate_operators,
    stack_equal_operators,
    prepare_launches,
)
