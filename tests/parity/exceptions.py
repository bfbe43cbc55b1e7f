"""What the parity tests leave out, and why."""

from __future__ import annotations

from pipeline.readers.arguments import EPOCH_SHUFFLE_ARGUMENTS, READER_ARGUMENTS

#: Operators without a case.
EXCEPTIONS: dict[str, str] = {}

#: Arguments that no case draws, by operator.
UNDRAWN: dict[str, set[str]] = {
    "decoders.image_crop": {"crop_d", "crop_pos_z"},  # pictures have no depth
    # What all readers share is compared in tests/pipeline/readers.
    "readers.numpy": {argument.name for argument in (*READER_ARGUMENTS, *EPOCH_SHUFFLE_ARGUMENTS)},
}
