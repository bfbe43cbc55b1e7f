"""Failures of fast paths. Their operators then run one by one, so a fault of a fast path itself would only be slow."""

from __future__ import annotations

import logging
from collections import Counter

from dali_proxy.pipeline._strict import is_strict

_log = logging.getLogger("dali_proxy")


class FastPaths:
    """Counts the failures of an executor's fast paths.

    Attributes:
        failures: number of failures, by rule.
    """

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self._strict = is_strict()

    def confirm(self, rule: str, error: Exception) -> None:
        """Count a failure of a fast path whose operators succeeded one by one. Log the first of each rule.

        Raises:
            AssertionError: see `is_strict`.
        """
        self.failures[rule] += 1
        if self._strict:
            raise AssertionError(f"{rule} failed, although its operators succeed one by one") from error
        if self.failures[rule] == 1:
            _log.warning("%s failed; its operators run one by one, which is slower", rule, exc_info=error)
