"""Names of other libraries for what operators do: errors and the reference lead from them to the operators."""

from __future__ import annotations

from dali_proxy.pipeline._listing import plain

#: Operators, and names of torchvision, Albumentations, Kornia, OpenCV, torchaudio, PIL and NumPy.
SYNONYMS = {
    "audio_resample": "resample Resample",
    "bb_flip": "hflip_boxes",
    "brightness": "adjust_brightness RandomBrightness",
    "brightness_contrast": "RandomBrightnessContrast adjust_contrast ColorJiggle",
    "cast": "astype to_dtype ConvertImageDtype ToFloat convertTo",
    "cat": "concat concatenate hstack vstack",
    "clahe": "CLAHE createCLAHE equalize_clahe",
    "color_space_conversion": "cvtColor rgb_to_hsv rgb_to_grayscale Grayscale ToGray RandomGrayscale convert",
    "color_twist": "ColorJitter jitter_color RandomToneCurve HueSaturationValue color_jitter",
    "contrast": "RandomContrast",
    "coord_flip": "flip_keypoints",
    "coord_transform": "transform_points perspectiveTransform",
    "crop": "CenterCrop RandomCrop FiveCrop center_crop",
    "crop_mirror_normalize": "Normalize ToTensor ToTensorV2",
    "debayer": "demosaic raw_to_rgb cvtColorBayer",
    "decoders.audio": "load_audio read_audio torchaudio_load soundfile",
    "decoders.image": "imread imdecode read_image decode_jpeg decode_image load_image",
    "decoders.image_random_crop": "RandomResizedCrop inception_crop",
    "decoders.numpy": "numpy_load",
    "decoders.video": "read_video VideoReader VideoCapture decode_video",
    "io.video": "get_frames_at get_frames_played_at VideoDecoder decode_video_frames",
    "equalize": "RandomEqualize equalizeHist",
    "erase": "RandomErasing CoarseDropout Cutout GridDropout SpecAugment FrequencyMasking TimeMasking masking "
    "random_erasing XYMasking",
    "expand_dims": "unsqueeze newaxis",
    "experimental.dilate": "dilation dilate morphology MorphologicalTransform",
    "experimental.erode": "erosion erode",
    "experimental.median_blur": "MedianBlur median_filter",
    "experimental.remap": "grid_sample remap_image ElasticTransform GridDistortion OpticalDistortion",
    "experimental.warp_perspective": "Perspective RandomPerspective warpPerspective homography",
    "filter": "filter2d conv2d Sharpen Emboss MotionBlur convolve",
    "flip": "hflip vflip mirror HorizontalFlip VerticalFlip RandomHorizontalFlip RandomVerticalFlip fliplr flipud",
    "gaussian_blur": "GaussianBlur blur RandomGaussianBlur",
    "grid_mask": "GridMask GridDropout",
    "hsv": "adjust_hsv HueSaturationValue",
    "hue": "adjust_hue RandomHue",
    "io.file.read": "read_file open fromfile",
    "jpeg_compression_distortion": "JPEG ImageCompression RandomJPEG jpeg_codec_differentiable",
    "laplacian": "edges Laplacian",
    "lookup_table": "LUT posterize solarize invert Posterize Solarize InvertImg ToneCurve gamma RandomGamma",
    "mel_filter_bank": "MelSpectrogram MelScale melspectrogram log_mel",
    "mfcc": "MFCC",
    "multi_paste": "mosaic Mosaic collage CopyPaste",
    "noise.gaussian": "GaussNoise GaussianNoise RandomGaussianNoise add_noise",
    "noise.salt_and_pepper": "SaltAndPepper RandomSaltAndPepperNoise",
    "noise.shot": "ShotNoise ISONoise poisson",
    "nonsilent_region": "trim vad trim_silence",
    "normalize": "standardize zscore instance_norm",
    "one_hot": "onehot to_categorical",
    "pad": "PadIfNeeded letterbox LetterBox copyMakeBorder constant_pad",
    "paste": "letterbox LetterBox RandomZoomOut expand",
    "permute_batch": "shuffle_batch",
    "power_spectrum": "fft stft",
    "preemphasis_filter": "preemphasis",
    "python_function": "Lambda",
    "random.beta": "beta",
    "random.choice": "choice randint OneOf RandomChoice",
    "random.coin_flip": "bernoulli RandomApply",
    "random.normal": "randn",
    "random.uniform": "rand randuniform",
    "random_bbox_crop": "RandomIoUCrop BBoxSafeRandomCrop RandomSizedBBoxSafeCrop AtLeastOneBBoxRandomCrop",
    "random_resized_crop": "RandomResizedCrop RandomSizedCrop",
    "reinterpret": "view_as",
    "reshape": "view flatten rearrange",
    "resize": "Resize interpolate LongestMaxSize SmallestMaxSize RandomScale rescale thumbnail imresize downsample",
    "roi_random_crop": "CropNonEmptyMaskIfExists RandCropByPosNegLabel",
    "rotate": "Rotate RandomRotation SafeRotate rot90 RandomRotate90",
    "saturation": "adjust_saturation RandomSaturation",
    "segmentation.random_object_bbox": "CropNonEmptyMaskIfExists",
    "shapes": "size get_size",
    "slice": "crop_box narrow Crop",
    "spectrogram": "Spectrogram stft",
    "sphere": "fisheye",
    "squeeze": "squeeze_dims",
    "to_decibels": "AmplitudeToDB power_to_db log",
    "transforms.rotation": "getRotationMatrix2D",
    "transpose": "permute swapaxes moveaxis ToCHW",
    "warp_affine": "Affine RandomAffine warpAffine ShiftScaleRotate shear translate RandomShear",
}


def operators_for(name: str) -> list[str]:
    """Return the operators for a name of another library, whatever its case and underscores.

    Example:
        >>> operators_for("color_jitter"), operators_for("Cutout")
        (['color_twist'], ['erase'])
    """
    wanted = plain(name)
    return [operator for operator, names in SYNONYMS.items() if wanted in map(plain, names.split())]
