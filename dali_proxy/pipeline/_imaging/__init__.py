"""CPU image primitives: functions that process one sample in NumPy arrays, independent of graphs and threads.

Their expensive calls (simplejpeg, OpenCV, large NumPy operations) release the GIL, so threads scale.
"""

from dali_proxy.pipeline._imaging.blur import GaussianWindows, blur, gaussian_window
from dali_proxy.pipeline._imaging.color import color_matrix, scale_shift, transform_channels
from dali_proxy.pipeline._imaging.convert import convert, convert_color
from dali_proxy.pipeline._imaging.decode import decode, is_palette_png, is_rare_tiff
from dali_proxy.pipeline._imaging.formats import peek
from dali_proxy.pipeline._imaging.info import ImageInfo
from dali_proxy.pipeline._imaging.noise import gaussian_noise, salt_and_pepper, shot_noise
from dali_proxy.pipeline._imaging.normalize import crop_mirror_normalize
from dali_proxy.pipeline._imaging.quantiles import normal_quantiles
from dali_proxy.pipeline._imaging.resample import resize
from dali_proxy.pipeline._imaging.window import extract

__all__ = [
    "GaussianWindows",
    "ImageInfo",
    "blur",
    "color_matrix",
    "convert",
    "convert_color",
    "crop_mirror_normalize",
    "decode",
    "extract",
    "gaussian_noise",
    "gaussian_window",
    "is_palette_png",
    "is_rare_tiff",
    "normal_quantiles",
    "peek",
    "resize",
    "salt_and_pepper",
    "scale_shift",
    "shot_noise",
    "transform_channels",
]
