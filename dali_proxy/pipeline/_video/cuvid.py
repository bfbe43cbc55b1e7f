"""The driver's interface to NVDEC, libnvcuvid, as NVIDIA's Video Codec SDK documents it."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from dali_proxy.pipeline.errors import DeviceError

#: Numbers of codecs, by FFmpeg's names.
CODECS = {
    "mpeg1video": 0,
    "mpeg2video": 1,
    "mpeg4": 2,
    "vc1": 3,
    "h264": 4,
    "mjpeg": 5,
    "hevc": 8,
    "vp8": 9,
    "vp9": 10,
    "av1": 11,
}
CHROMA_420 = 1
NV12, P016 = 0, 1  # formats of mapped frames of 8 bits, and of more
END_OF_STREAM, HAS_TIME, END_OF_PICTURE = 1, 2, 8  # flags of packets
DECODE_ERRORS = (8, 9)  # of a picture: an error, and one that NVDEC has concealed
PICTURE_INDEX = 8  # offset of the number of the surface in CUVIDPICPARAMS, whose other fields the parser fills

_int, _uint, _ulong, _short, _pointer = ctypes.c_int, ctypes.c_uint, ctypes.c_ulong, ctypes.c_short, ctypes.c_void_p
Callback = ctypes.CFUNCTYPE(_int, _pointer, _pointer)
"""A function that the parser calls. It gets the user's pointer and a structure, and returns 0 for an error."""


class Capabilities(ctypes.Structure):
    """CUVIDDECODECAPS."""

    _fields_ = (
        ("codec", _uint),
        ("chroma", _uint),
        ("bits_above_8", _uint),
        ("_reserved1", _uint * 3),
        ("supported", ctypes.c_ubyte),
        ("engines", ctypes.c_ubyte),
        ("output_formats", ctypes.c_ushort),
        ("max_width", _uint),
        ("max_height", _uint),
        ("max_blocks", _uint),
        ("min_width", ctypes.c_ushort),
        ("min_height", ctypes.c_ushort),
        ("_histograms", ctypes.c_ubyte * 4),
        ("_reserved2", _uint * 10),
    )


class Format(ctypes.Structure):
    """CUVIDEOFORMAT: what the parser found in the header of a sequence."""

    _fields_ = (
        ("codec", _int),
        ("frame_rate", _uint * 2),
        ("progressive", ctypes.c_ubyte),
        ("bits_above_8", ctypes.c_ubyte),
        ("chroma_bits_above_8", ctypes.c_ubyte),
        ("least_surfaces", ctypes.c_ubyte),
        ("coded_width", _uint),
        ("coded_height", _uint),
        ("left", _int),
        ("top", _int),
        ("right", _int),
        ("bottom", _int),
        ("chroma", _int),
        ("bit_rate", _uint),
        ("aspect_ratio", _int * 2),
        ("signal", ctypes.c_ubyte),  # bit 3: whether the range is full
        ("primaries", ctypes.c_ubyte),
        ("transfer", ctypes.c_ubyte),
        ("matrix", ctypes.c_ubyte),
        ("header_size", _uint),
    )


class DecoderInfo(ctypes.Structure):
    """CUVIDDECODECREATEINFO."""

    _fields_ = (
        ("width", _ulong),
        ("height", _ulong),
        ("surfaces", _ulong),
        ("codec", _int),
        ("chroma", _int),
        ("flags", _ulong),
        ("bits_above_8", _ulong),
        ("only_intra", _ulong),
        ("max_width", _ulong),
        ("max_height", _ulong),
        ("_reserved1", _ulong),
        ("area", _short * 4),  # left, top, right, bottom
        ("output_format", _int),
        ("deinterlace", _int),
        ("target_width", _ulong),
        ("target_height", _ulong),
        ("output_surfaces", _ulong),
        ("lock", _pointer),
        ("target", _short * 4),
        ("_reserved2", _ulong * 5),
    )


class ParserInfo(ctypes.Structure):
    """CUVIDPARSERPARAMS."""

    _fields_ = (
        ("codec", _int),
        ("surfaces", _uint),
        ("clock_rate", _uint),
        ("error_threshold", _uint),
        ("display_delay", _uint),
        ("flags", _uint),
        ("_reserved1", _uint * 4),
        ("user", _pointer),
        ("on_sequence", Callback),
        ("on_decode", Callback),
        ("on_display", Callback),
        ("on_operating_point", _pointer),
        ("on_message", _pointer),
        ("_reserved2", _pointer * 5),
        ("format", _pointer),
    )


class Packet(ctypes.Structure):
    """CUVIDSOURCEDATAPACKET."""

    _fields_ = (("flags", _ulong), ("size", _ulong), ("data", _pointer), ("time", ctypes.c_longlong))


class Shown(ctypes.Structure):
    """CUVIDPARSERDISPINFO: a frame that is due."""

    _fields_ = (
        ("surface", _int),
        ("progressive", _int),
        ("top_field_first", _int),
        ("repeat_first_field", _int),
        ("time", ctypes.c_longlong),
    )


class Mapping(ctypes.Structure):
    """CUVIDPROCPARAMS: how to copy a frame out of its surface."""

    _fields_ = (
        ("progressive", _int),
        ("second_field", _int),
        ("top_field_first", _int),
        ("unpaired_field", _int),
        ("_flags", _uint * 2),
        ("raw_input", ctypes.c_ulonglong),
        ("raw_input_layout", _uint * 2),
        ("raw_output", ctypes.c_ulonglong),
        ("raw_output_layout", _uint * 2),
        ("stream", _pointer),
        ("_reserved1", _uint * 46),
        ("_reserved2", _pointer * 2),
    )


class Status(ctypes.Structure):
    """CUVIDGETDECODESTATUS."""

    _fields_ = (("status", _int), ("_reserved1", _uint * 31), ("_reserved2", _pointer * 8))


@cache
def load_cuvid() -> Any:
    """Return the library.

    Raises:
        DeviceError: the driver doesn't include it, or a container hides it.
    """
    try:
        return ctypes.CDLL("libnvcuvid.so.1")
    except OSError as error:
        raise DeviceError(
            f"videos can't be decoded on the GPU without the driver's libnvcuvid ({error}): in containers, set "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video; otherwise use device='cpu', and .gpu() to upload frames"
        ) from error
