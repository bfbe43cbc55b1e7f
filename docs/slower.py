"""Why some operators are slower than NVIDIA DALI's. docs/operators-speed.md has the table."""

from __future__ import annotations

_WINDOW = (
    "nvImageCodec's CPU decoder skips the rows and columns outside of the window, as in DALI. Both libraries spend two "
    "thirds to three quarters of the time in its Huffman decoder. Here, Python and its lock take 6 %, and the copy of "
    "the pixels into the memory of the batch 2 %."
)
_SMALL = (
    "A batch takes 0.03 to 0.07 ms of processor time, of which an empty pipeline takes 0.03, and joining the samples "
    "for NumPy 0.01 for each input. DALI takes 0.04 to 0.06 ms in all, so that ratios change from run to run. A "
    "pipeline that also decodes images takes a thousand times as long."
)

#: On the CPU, by operator.
ON_CPU: dict[str, str] = {
    "batch_permutation": _SMALL,
    "bbox_rotate": (
        "A batch takes 0.33 ms, DALI's 0.29 to 0.31: the rotation takes a third, reading the canvases 20 %, all by "
        "NumPy on small arrays, and the rest is Python's work for a batch."
    ),
    "clahe": (
        "OpenCV takes nearly all of the 73 ms: 22 for the conversion to Lab, 33 for that back, and the rest for the "
        "histograms, as long as all of DALI's work."
    ),
    "copy": "Both libraries copy at the speed of the memory.",
    "debayer": (
        "OpenCV takes 8.2 of 9.5 ms, nearly as long as all of DALI's work, and a compiled loop of our own wasn't "
        "faster: the results take 59 MB of memory. The rest is Python and its lock, 20 microseconds per image."
    ),
    "decoders.audio": (
        "miniaudio takes 0.1 of 0.13 ms for one second of FLAC, and all of DALI's work 0.11 ms. The rest is Python and "
        "its lock. Longer files take as long as in DALI: 1.6 ms for twelve seconds. Without miniaudio, which has no "
        "wheel for ARM, libsndfile takes twice as long."
    ),
    "decoders.image_crop": _WINDOW,
    "decoders.image_random_crop": _WINDOW,
    "decoders.image_slice": _WINDOW,
    "experimental.warp_perspective": (
        "OpenCV takes 34 of 36.5 ms, as long as all of DALI's work. The rest is Python and its lock, 39 microseconds "
        "per image."
    ),
    "jpeg_compression_distortion": (
        "libjpeg-turbo, which DALI uses, too, takes 85 % of the time, and two conversions of colors 10 %."
    ),
    "random_bbox_crop": (
        "Of 0.19 ms, the least time of a batch, an empty pipeline takes 0.02, and the compiled loop that draws windows "
        "0.03. The rest is NumPy on small arrays, and Python for the batch and its three outputs."
    ),
    "random_crop_generator": (
        "A batch takes 0.06 ms, of which an empty pipeline takes half, and NumPy's generator 0.014. DALI takes as long."
    ),
    "readers.sequence": (
        "Each frame has 60 x 80 pixels, so Python's work for a frame outweighs the pixels. libjpeg-turbo takes half of "
        "the time, Python a third: it checks each file before the decoder sees it. Files are read without Python."
    ),
    "readers.webdataset": (
        "DALI maps the archives, and leaves it to the next operator to load their pages; this reader copies the files "
        "of a batch, 6.8 MB, which takes 0.65 ms, however few calls read them. All of DALI's work takes 0.87 ms. A "
        "mapped archive that is truncated while it is read would end the process. If DALI reads, too "
        "(`dont_use_mmap=True`), it takes 1.2 to 1.4 times as long as this reader."
    ),
    "sequence_rearrange": (
        "The copies take 1.1 of 1.5 ms of processor time per batch, and all of DALI's work 1.3. The rest is Python, "
        "and handing the copies to two threads."
    ),
    "transforms.combine": _SMALL,
    "transforms.rotation": _SMALL,
    "transforms.shear": _SMALL,
}

_HOST = (
    "The host limits it: NumPy makes the tables that kernels read (addresses, windows, numbers of each sample), one "
    "call copies them and issues the launches, threads pass the batch on. That takes 0.06 to 0.1 ms for batches whose "
    "launches are repeated, and 0.2 to 0.5 ms where shapes or windows differ from batch to batch. DALI's C++ takes "
    "0.07 to 0.2 ms. This time doesn't grow with the images, and in a pipeline the decoding of other batches hides it. "
    "[Performance](performance.md#single-operators-on-the-gpu) has the time on the GPU alone."
)
_EACH = "As above, with more Python: it computes the arguments of a batch in 15 to 40 small operations of NumPy."
_HOST_ALONE = """
audio_resample bb_flip brightness brightness_contrast cast cast_like cat color_space_conversion color_twist constant
contrast coord_flip coord_transform copy crop crop_mirror_normalize element_extract equalize experimental.remap
external_source flip gaussian_blur get_property hsv hue jitter lookup_table
mel_filter_bank mfcc noise.gaussian noise.salt_and_pepper nonsilent_region normalize one_hot permute_batch
preemphasis_filter random.coin_flip random_resized_crop reductions.max reductions.mean reductions.mean_square
reductions.min reductions.rms reductions.std_dev reductions.sum reductions.variance saturation shapes slice
spectrogram sphere stack to_decibels transpose warp_affine water expand_dims experimental.warp_perspective multi_paste
pad paste random.normal random.uniform reinterpret reshape sequence_rearrange squeeze tensor_resize
"""
_BY_SAMPLE = """
erase fast_resize_crop_mirror resize_crop_mirror rotate
"""

#: On the GPU, by operator.
ON_GPU: dict[str, str] = {
    **dict.fromkeys(_HOST_ALONE.split(), _HOST),
    **dict.fromkeys(_BY_SAMPLE.split(), _EACH),
    "decoders.image_slice": (
        "Both use nvImageCodec, whose threads share the cores with ours, and rounds differ by a third. "
        "`decoders.image_crop` decodes windows in the same way, and is as fast as DALI's."
    ),
    "filter": "The kernel took 0.28 ms when this was measured, and DALI's 0.13. Since then it takes 0.095 ms.",
    "grid_mask": "The kernel took 0.15 ms when this was measured, and DALI's 0.09. Since then it takes 0.09 ms.",
    "jpeg_compression_distortion": (
        "Two kernels took 0.17 ms when this was measured, and DALI's 0.07. Since then they take 0.04 ms."
    ),
    "noise.shot": "The kernel takes 0.47 ms, and DALI's 0.41.",
    "resize": (
        "When this was measured, the kernel computed a pixel from all source pixels under its filter at once. Since "
        "then it filters rows first, into shared memory: cubic takes 0.17 ms instead of 0.75, antialiased linear 0.10 "
        "instead of 0.26, twice as large 0.23 instead of 0.49; DALI takes 0.28, 0.17 and 0.34."
    ),
}
