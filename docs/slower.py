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
    "The host limits it: our kernels take less time than DALI's, or as long. NumPy makes the tables that kernels read "
    "(addresses, windows, numbers of each sample), one call copies them and issues the launches, threads pass the "
    "batch on. On an idle AMD EPYC, that takes 0.035 ms of processor time for batches whose launches are repeated, and "
    "0.08 to 0.14 ms with arguments for each sample; on the machine of this table, one and a half times to four times "
    "as long, which also differs from run to run. DALI's C++ takes 0.06 to 0.2 ms. This time doesn't grow with the "
    "images, and in a pipeline the decoding of other batches hides it. "
    "[Performance](performance.md#single-operators-on-the-gpu) has the profile."
)
_KERNEL = "The kernel, too: DALI's takes {of} of our kernel's time. {why} The rest is the work of the host, as above."
_HOST_ALONE = """
audio_resample bb_flip brightness brightness_contrast cast color_twist constant coord_flip coord_transform copy
element_extract filter grid_mask hsv hue jpeg_compression_distortion lookup_table mel_filter_bank one_hot
preemphasis_filter random.coin_flip random.normal random.uniform random_resized_crop reductions.mean
reductions.mean_square reductions.min reductions.rms reductions.std_dev reductions.sum reductions.variance rotate
saturation sequence_rearrange shapes slice to_decibels warp_affine
"""

#: On the GPU, by operator.
ON_GPU: dict[str, str] = {
    **dict.fromkeys(_HOST_ALONE.split(), _HOST),
    "decoders.image_slice": (
        "Both use nvImageCodec, whose threads share the cores with ours, and rounds differ by a third. "
        "`decoders.image_crop` decodes windows in the same way, and is as fast as DALI's."
    ),
    "jitter": _KERNEL.format(of="nine tenths", why="It draws two numbers for each pixel, the same ones as on the CPU."),
    "normalize": _KERNEL.format(
        of="two thirds",
        why="The statistics of each image need a separate pass, whose partial sums a second one adds.",
    ),
    "sphere": _KERNEL.format(of="seven tenths", why="It computes the source of each pixel in float64, as on the CPU."),
    "stack": _KERNEL.format(of="nine tenths", why="It copies at the speed of the memory."),
    "water": _KERNEL.format(of="six tenths", why="It computes the source of each pixel in float64, as on the CPU."),
}
