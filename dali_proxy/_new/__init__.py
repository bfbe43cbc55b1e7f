"""The training scripts of ``dali-proxy new``: each is written from a kind of data and a training loop."""

from dali_proxy._new.script import FRAMEWORKS, KINDS, write_script

__all__ = ["FRAMEWORKS", "KINDS", "write_script"]
