"""What the operators are for: the groups of the reference, and a line of code for each operator without an image."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._declaration.registry import modules_of

__all__ = ["EXAMPLES", "PURPOSES", "example"]

#: The operators by purpose, the most common ones first. Others follow those of their folder's purpose.
PURPOSES = {
    "Decode": "decoders.image decoders.image_random_crop decoders.image_crop decoders.image_slice peek_image_shape "
    "decoders.video io.video decoders.audio decoders.numpy decoders.inflate io.file.read",
    "Crop, resize, pad": "resize smart_resize patchify crop random_resized_crop crop_mirror_normalize pad slice paste "
    "multi_paste random_crop_generator roi_random_crop resize_crop_mirror fast_resize_crop_mirror tensor_resize "
    "experimental.resize",
    "Flip, rotate, warp": "flip rotate warp_affine experimental.warp_perspective experimental.remap jitter "
    "sphere water",
    "Change colors": "color_twist brightness contrast brightness_contrast saturation hue hsv color_space_conversion "
    "equalize clahe lookup_table debayer",
    "Blur, add noise, hide parts": "gaussian_blur experimental.median_blur filter laplacian experimental.dilate "
    "experimental.erode noise.gaussian noise.salt_and_pepper noise.shot jpeg_compression_distortion erase grid_mask",
    "Boxes, masks, points": "random_bbox_crop ssd_random_crop bb_flip bbox_rotate bbox_paste box_encoder coord_flip "
    "coord_transform transforms.rotation transforms.scale transforms.shear transforms.translation transforms.crop "
    "transforms.combine segmentation.random_object_bbox segmentation.random_mask_pixel segmentation.select_masks",
    "Audio": "spectrogram mel_filter_bank to_decibels mfcc audio_resample preemphasis_filter power_spectrum "
    "nonsilent_region",
    "Videos and sequences": "per_frame sequence_rearrange element_extract optical_flow inputs.video "
    "experimental.inputs.video",
    "Random numbers": "random.uniform random.coin_flip random.normal random.choice random.beta batch_permutation "
    "permute_batch",
    "Types, shapes, arithmetic": "cast normalize transpose reshape reinterpret expand_dims squeeze stack cat shapes "
    "one_hot cast_like copy constant full full_like ones ones_like zeros zeros_like get_property reductions.mean "
    "reductions.sum reductions.min reductions.max reductions.std_dev reductions.variance reductions.mean_square "
    "reductions.rms",
    "Your data and your functions": "external_source python_function dl_tensor_python_function dump_image",
    "Readers": "readers.file readers.coco readers.video readers.video_resize readers.webdataset readers.tfrecord "
    "readers.numpy readers.sequence readers.nemo_asr readers.caffe readers.caffe2 readers.mxnet "
    "experimental.readers.video experimental.readers.fits",
}

#: The purpose of the operators of each folder that no group above names.
_OF_FOLDER = {
    "decoding": "Decode",
    "geometry": "Crop, resize, pad",
    "color": "Change colors",
    "effects": "Blur, add noise, hide parts",
    "boxes": "Boxes, masks, points",
    "audio": "Audio",
    "random": "Random numbers",
    "arrays": "Types, shapes, arithmetic",
    "user_code": "Your data and your functions",
    "_readers": "Readers",
}

for _schema in all_schemas():
    if _schema.alias_of is None and not _schema.hidden and _schema.name not in " ".join(PURPOSES.values()).split():
        PURPOSES[_OF_FOLDER[modules_of([_schema.name])[0].split(".")[-2]]] += f" {_schema.name}"

#: Code for operators that `docs.images` doesn't draw; those without any are called with one input. `x` is data of any
#: kind.
EXAMPLES = {
    "decoders.image": "fn.decoders.image(encoded)",
    "decoders.image_random_crop": "fn.decoders.image_random_crop(encoded, random_area=[0.08, 1.0])",
    "decoders.image_crop": "fn.decoders.image_crop(encoded, crop=[224, 224])",
    "decoders.image_slice": "fn.decoders.image_slice(encoded, start=[20, 40], shape=[200, 200], axis_names='HW')",
    "peek_image_shape": "fn.peek_image_shape(encoded)",
    "decoders.video": "fn.decoders.video(encoded, start_frame=0, stride=2, sequence_length=8)",
    "io.video": "fn.io.video(path, times=[1.4, 1.5])",
    "decoders.audio": "fn.decoders.audio(encoded, sample_rate=16000, downmix=True)",
    "decoders.numpy": "fn.decoders.numpy(encoded)",
    "decoders.inflate": "fn.decoders.inflate(compressed, shape=[240, 320, 3])",
    "io.file.read": "fn.io.file.read(path)",
    "random_crop_generator": "fn.random_crop_generator(fn.peek_image_shape(encoded), random_area=[0.3, 1.0])",
    "smart_resize": "fn.smart_resize(x, factor=28, max_pixels=1_000_000)",
    "patchify": "fn.patchify(fn.smart_resize(x, factor=28), patch_size=14, merge_size=2)",
    "coord_flip": "fn.coord_flip(points, flip_x=1)",
    "coord_transform": "fn.coord_transform(points, MT=fn.transforms.rotation(angle=30.0))",
    "transforms.rotation": "fn.transforms.rotation(angle=30.0, center=[100.0, 75.0])",
    "transforms.scale": "fn.transforms.scale(scale=[1.2, 1.2], center=[100.0, 75.0])",
    "transforms.shear": "fn.transforms.shear(angles=[10.0, 0.0])",
    "transforms.translation": "fn.transforms.translation(offset=[10.0, 20.0])",
    "transforms.crop": "fn.transforms.crop(from_start=[0.0, 0.0], from_end=[1.0, 1.0], to_start=[0.0, 0.0], "
    "to_end=[200.0, 150.0])",
    "transforms.combine": "fn.transforms.combine(fn.transforms.rotation(angle=30.0), "
    "fn.transforms.translation(offset=[10.0, 20.0]))",
    "audio_resample": "fn.audio_resample(sound, in_rate=44100, out_rate=16000)",
    "per_frame": "fn.rotate(clip, angle=fn.per_frame(angles))",
    "element_extract": "fn.element_extract(clip, element_map=[0, 4])",
    "inputs.video": "fn.inputs.video(name='video', sequence_length=8)",
    "experimental.inputs.video": "fn.experimental.inputs.video(name='video', sequence_length=8)",
    "random.uniform": "fn.random.uniform(range=[0.8, 1.2])",
    "random.coin_flip": "fn.random.coin_flip(probability=0.5)",
    "random.normal": "fn.random.normal(shape=[3], stddev=0.1)",
    "random.choice": "fn.random.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1])",
    "random.beta": "fn.random.beta(alpha=0.4, beta=0.4)",
    "batch_permutation": "fn.batch_permutation()",
    "permute_batch": "fn.permute_batch(x, indices=fn.batch_permutation())",
    "cast": "fn.cast(x, dtype=types.FLOAT)",
    "cast_like": "fn.cast_like(x, other)",
    "transpose": "fn.transpose(x, perm=[2, 0, 1])",
    "reshape": "fn.reshape(x, shape=[-1, 3])",
    "reinterpret": "fn.reinterpret(x, layout='DHWC')",
    "expand_dims": "fn.expand_dims(x, axes=[0], new_axis_names='C')",
    "squeeze": "fn.squeeze(x, axes=[0])",
    "stack": "fn.stack(x, other)",
    "cat": "fn.cat(x, other, axis=0)",
    "one_hot": "fn.one_hot(label, num_classes=10)",
    "constant": "fn.constant(fdata=[0.5, 1.0], shape=[2])",
    "full": "fn.full(0.5, shape=[2, 3])",
    "full_like": "fn.full_like(x, 0.5)",
    "ones": "fn.ones(shape=[2, 3])",
    "ones_like": "fn.ones_like(x)",
    "zeros": "fn.zeros(shape=[2, 3])",
    "zeros_like": "fn.zeros_like(x)",
    "get_property": "fn.get_property(x, key='source_info')",
    "reductions.mean": "fn.reductions.mean(x, axes=[0, 1])",
    "reductions.sum": "fn.reductions.sum(x, axes=[0])",
    "reductions.std_dev": "fn.reductions.std_dev(x, fn.reductions.mean(x))",
    "reductions.variance": "fn.reductions.variance(x, fn.reductions.mean(x))",
    "external_source": "fn.external_source(name='images')",
    "python_function": "fn.python_function(x, function=lambda array: array[::2])",
    "dl_tensor_python_function": "fn.dl_tensor_python_function(x, function=lambda tensors: tensors)",
    "dump_image": "fn.dump_image(x, suffix='debug')",
    "readers.file": "fn.readers.file(file_root='photos', random_shuffle=True)",
    "readers.coco": "fn.readers.coco(file_root='images', annotations_file='instances.json', ratio=True, ltrb=True)",
    "readers.video": "fn.readers.video(filenames=['a.mp4'], sequence_length=8)",
    "readers.video_resize": "fn.readers.video_resize(filenames=['a.mp4'], sequence_length=8, size=[64, 64])",
    "readers.webdataset": "fn.readers.webdataset(paths=['a.tar'], ext=['jpg', 'cls'])",
    "readers.tfrecord": "fn.readers.tfrecord(path='a.tfrecord', index_path='a.idx', features=features)",
    "readers.numpy": "fn.readers.numpy(file_root='arrays')",
    "readers.sequence": "fn.readers.sequence(file_root='frames', sequence_length=8)",
    "readers.nemo_asr": "fn.readers.nemo_asr(manifest_filepaths=['manifest.json'], read_text=True)",
    "readers.caffe": "fn.readers.caffe(path='lmdb')",
    "readers.caffe2": "fn.readers.caffe2(path='lmdb')",
    "readers.mxnet": "fn.readers.mxnet(path=['a.rec'], index_path=['a.idx'])",
    "experimental.readers.video": "fn.experimental.readers.video(filenames=['a.mp4'], sequence_length=8)",
    "experimental.readers.fits": "fn.experimental.readers.fits(file_root='fits')",
    "experimental.remap": "fn.experimental.remap(x, map_x, map_y)",
    "bbox_paste": "fn.bbox_paste(boxes, ratio=1.6, ltrb=True, paste_x=0.8, paste_y=0.3)",
    "bb_flip": "fn.bb_flip(boxes, horizontal=1, ltrb=True)",
    "bbox_rotate": "fn.bbox_rotate(boxes, labels, angle=25.0, keep_size=True, input_shape=[150, 200])",
    "random_bbox_crop": "fn.random_bbox_crop(boxes, labels, scaling=[0.5, 0.8], thresholds=[0.3], bbox_layout='xyXY')",
    "ssd_random_crop": "fn.ssd_random_crop(x, boxes, labels)",
    "box_encoder": "fn.box_encoder(boxes, labels, anchors=[0.1, 0.1, 0.5, 0.5])",
    "mel_filter_bank": "fn.mel_filter_bank(spectrogram, sample_rate=16000, nfilter=64)",
    "mfcc": "fn.mfcc(fn.to_decibels(mel), n_mfcc=20)",
    "nonsilent_region": "fn.nonsilent_region(sound, cutoff_db=-30.0)",
    "power_spectrum": "fn.power_spectrum(sound)",
    "preemphasis_filter": "fn.preemphasis_filter(sound, preemph_coeff=0.97)",
    "spectrogram": "fn.spectrogram(sound, nfft=512, window_length=400, window_step=160)",
    "to_decibels": "fn.to_decibels(mel, cutoff_db=-60)",
    "sequence_rearrange": "fn.sequence_rearrange(clip, new_order=[2, 0, 0])",
    "optical_flow": "fn.optical_flow(clip, output_grid=1)",
    "segmentation.random_mask_pixel": "fn.segmentation.random_mask_pixel(mask, foreground=1)",
    "segmentation.random_object_bbox": "fn.segmentation.random_object_bbox(mask, format='start_end')",
    "segmentation.select_masks": "fn.segmentation.select_masks(mask_ids, polygons, vertices)",
}


def _drawn() -> dict[str, str]:
    """Return the code of the operators that `docs.images` draws, as it is written there."""
    text = (Path(__file__).parent / "images.py").read_text(encoding="utf-8")
    found = {}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "OF_IMAGES":
            assert isinstance(statement.value, ast.Dict)
            for key, value in zip(statement.value.keys, statement.value.values, strict=True):
                assert isinstance(value, ast.Lambda)
                line = ast.unparse(value.body)
                written = ast.get_source_segment(text, value.body) or line
                first, _, rest = written.partition("\n")
                found[ast.literal_eval(key or value)] = (
                    line if len(line) <= 90 else f"{first}\n{textwrap.dedent(rest)}".strip()
                )
    return found


DRAWN = _drawn()


def example(name: str) -> str:
    """Return the code of an operator: that of its image, or a line."""
    return DRAWN.get(name) or EXAMPLES.get(name, f"fn.{name}(x)")
