"""The host, which runs the pipeline in a separate process or on a thread. Nothing here imports torch."""

from dali_proxy._host.attached import AttachedHost, Name
from dali_proxy._host.group import HostGroup
from dali_proxy._host.options import HostOptions
from dali_proxy._host.process import ProcessHost
from dali_proxy._host.thread import ThreadHost

__all__ = ["HOSTS", "AttachedHost", "HostGroup", "HostOptions", "Name", "ProcessHost", "ThreadHost"]

#: Hosts by the argument `mode` of `DALIServer`.
HOSTS = {"process": ProcessHost, "thread": ThreadHost}
