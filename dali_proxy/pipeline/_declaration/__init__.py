"""Operator schemas and the registry of all operators."""

from dali_proxy.pipeline._declaration.registry import declare_operator, implements, implements_with, register
from dali_proxy.pipeline._declaration.schema import (
    DETERMINISTIC,
    RANDOM_STATE,
    REQUIRED,
    Argument,
    Input,
    Kind,
    OperatorSchema,
    Role,
)

__all__ = [
    "DETERMINISTIC",
    "RANDOM_STATE",
    "REQUIRED",
    "Argument",
    "Input",
    "Kind",
    "OperatorSchema",
    "Role",
    "declare_operator",
    "implements",
    "implements_with",
    "register",
]
