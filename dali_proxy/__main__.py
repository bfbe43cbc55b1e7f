"""``python -m dali_proxy``: the command ``dali-proxy``."""

from __future__ import annotations

import sys

from dali_proxy._cli import main

sys.exit(main())
