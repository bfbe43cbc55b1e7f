"""NVIDIA's names for the modules of this project, so that scripts written for DALI run unchanged."""

from dali_proxy._nvidia.install import install_as_nvidia_dali

__all__ = ["install_as_nvidia_dali"]
