"""The error for an operator that doesn't exist."""

from __future__ import annotations

from collections.abc import Iterable

from dali_proxy.pipeline._declaration.names import class_name
from dali_proxy.pipeline._declaration.synonyms import operators_for
from dali_proxy.pipeline._listing import did_you_mean, plain


def missing_operator(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module of operators doesn't have. It suggests other names."""
    if name.startswith("_"):  # tools look for such attributes
        return AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=None)
    known = list(known)
    spelled = [each for each in known if plain(each) == plain(name)]
    meant = spelled or [each for path in operators_for(name) for each in (path, class_name(path)) if each in known]
    hint = f". Did you mean {' or '.join(map(repr, meant[:3]))}?" if meant else did_you_mean(name, known)
    # With the module as obj, a traceback would suggest one of its names, too.
    return AttributeError(f"module {module!r} has no operator {name!r}{hint}", name=name, obj=None)
