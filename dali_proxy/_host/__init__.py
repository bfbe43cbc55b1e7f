"""Where the pipeline runs: a host, in a process of its own or on a thread. Nothing here imports torch."""

from dali_proxy._host.options import HostOptions
from dali_proxy._host.process import ProcessHost
from dali_proxy._host.thread import ThreadHost

__all__ = ["HostOptions", "ProcessHost", "ThreadHost"]
