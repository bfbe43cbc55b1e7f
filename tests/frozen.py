"""Exclude the importing process's objects from garbage collection: its forks share their memory, and don't visit them.

The last module that the fork server imports; see `tests/preloaded.py`.
"""

from __future__ import annotations

import gc

gc.collect()
gc.freeze()
