"""Names of NVIDIA DALI's modules that don't exist here, with the reasons: `python -m docs.names` writes the page.

tests/docs/test_names.py compares the lists with the installed DALI.
"""

from __future__ import annotations

import json
from pathlib import Path

from dali_proxy._nvidia.differences import MISSING
from dali_proxy.pipeline._catalog import all_schemas
from docs.operators import NAMES

__all__ = ["HELPERS", "MODULES", "PAGE", "page"]

PAGE = Path(__file__).resolve().parent / "differences.md"

#: Modules below `nvidia.dali` whose names are compared. Operators are compared in docs/operators.md.
MODULES = (
    *("", "auto_aug.augmentations", "auto_aug.auto_augment", "auto_aug.core", "auto_aug.rand_augment"),
    *("auto_aug.trivial_augment", "backend", "data_node", "experimental.dynamic", "experimental.dynamic.checkpoint"),
    *("experimental.dynamic.math", "experimental.dynamic.random", "experimental.dynamic.readers"),
    *("experimental.torchvision", "experimental.torchvision.v2.functional"),
    *("external_source", "math", "ops", "pipeline"),
    *("plugin.base_iterator", "plugin.pytorch", "plugin.pytorch.fn", "plugin.pytorch.loader_evaluator"),
    *("plugin.pytorch.torch_utils", "plugin_manager", "sysconfig", "tensors", "tfrecord", "types"),
)

#: Names without a meaning for users: modules and helpers that DALI's modules happen to import.
HELPERS = frozenset(
    (
        *("Any", "Callable", "Dict", "Enum", "Iterable", "List", "Optional", "Tuple", "TypeVar", "Union"),
        *("NamedTuple", "NoReturn", "TypeAlias", "local"),
        *("WorkerPool", "_Augmentation", "a", "annotations", "b", "backend_impl", "check_cuda_runtime", "count"),
        *("cuda_checked", "dali_pickle", "deprecation_warning", "fn", "hidden", "initialized", "internal"),
        *("nvidia", "ops", "overload", "pipeline_tls", "python_function_plugin", "reducers", "tensors", "tfrec"),
        *("tls", "types", "unique"),
    )
)


def page() -> str:
    """Return the page, as Markdown."""
    rows = [
        f"| `{module}` | {', '.join(f'`{name}`' for name in names.split(', '))} | {reason} |"
        for module, reasons in MISSING.items()
        for names, reason in reasons.items()
    ]
    theirs: dict[str, list[str]] = json.loads(NAMES.read_text())["operators"]
    operators = [name for name in theirs if name not in {schema.name for schema in all_schemas()}]
    if operators:
        rows.append(
            f"| `fn`, `ops` | {', '.join(f'`{name}`' for name in operators)} | operators: not implemented yet |"
        )
    helpers = ", ".join(f"`{name}`" for name in sorted(HELPERS))
    rows.append(f"| all modules | {helpers} | modules and functions that DALI's modules merely import |")
    return "\n".join(
        (
            "# Names that exist only in NVIDIA DALI",
            "",
            "`python -m docs.names` writes this page. [Migrating](howto/from-dali.md#differences) and "
            "[Operators](operators.md) have the",
            "other differences.",
            "",
            "With `install_as_nvidia_dali()`, all public names of NVIDIA DALI 2.4 exist, except these:",
            "",
            "| below `nvidia.dali` | name | reason |",
            "| --- | --- | --- |",
            *rows,
            "",
        )
    )


if __name__ == "__main__":
    PAGE.write_text(page())
