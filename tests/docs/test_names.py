"""The names of NVIDIA DALI's modules, and the list of those that don't exist here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dali_proxy._nvidia.differences import MISSING
from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._declaration.names import class_name
from docs import names
from tests.environment import ROOT, with_project
from tests.preloaded import run_python

LIST_NAMES = """
import importlib, json, sys, types
import torch.cuda.nvtx as nvtx
nvtx.range_push = nvtx.range_pop = lambda *arguments: 0  # without CUDA, they fail
if sys.argv[1] == "ours":
    import dali_proxy
    dali_proxy.install_as_nvidia_dali()

def public(module):
    for name in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, name, None)
        foreign = isinstance(value, types.ModuleType) and not value.__name__.startswith("nvidia")
        if not name.startswith("_") and not foreign:
            attributes = [each for each in dir(value) if not each.startswith("_")] if isinstance(value, type) else []
            yield name, [each for each in attributes if each not in ("name", "value")]  # of the members of an enum

found = {}
for path in sys.argv[2:]:
    module = importlib.import_module(f"nvidia.dali.{path}".rstrip("."))
    found[path] = dict(public(module))
print(json.dumps(found))
"""


def names_of(package: str) -> dict[str, dict[str, list[str]]]:
    done = run_python("-c", LIST_NAMES, package, *names.MODULES, cwd=ROOT, env=with_project())
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def explained(module: str) -> dict[str, set[str]]:
    """Return the listed names of a module: names, and attributes by class."""
    listed: dict[str, set[str]] = {"": set()}
    for group in MISSING.get(module, {}):
        first, *others = group.split(", ")
        owner, _, attribute = first.rpartition(".")
        listed.setdefault(owner, set()).update({attribute, *others})
    return listed


@pytest.mark.parity
def test_missing_names_of_dali_are_listed_with_their_reasons() -> None:
    ours, theirs = names_of("ours"), names_of("dali")
    operators = {class_name(schema.name) for schema in all_schemas() if "." not in schema.name}
    unexplained = []
    for module, found in theirs.items():
        listed = explained(module)
        for name, attributes in found.items():
            if name in ours[module]:
                missing: Any = set(attributes) - set(ours[module][name])
                allowed = set().union(*(explained(each).get(name, set()) for each in MISSING), listed.get("*", ()))
                unexplained += [f"{module}.{name}.{each}" for each in sorted(missing - allowed)]
            elif name not in names.HELPERS | listed[""] and not (module == "ops" and name not in operators):
                unexplained.append(f"{module}.{name}")
    assert unexplained == []


def test_page_of_missing_names_is_current() -> None:
    assert names.PAGE.read_text() == names.page(), "run `python -m docs.all`"
