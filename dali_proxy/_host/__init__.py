"""The host, which runs the pipeline in a separate process or on a thread. Nothing here imports torch."""

from dali_proxy._host.options import HostOptions
from dali_proxy._host.process import ProcessHost
from dali_proxy._host.thread import ThreadHost

__all__ = ["HostOptions", "ProcessHost", "ThreadHost"]
