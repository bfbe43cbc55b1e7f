# "DALILoader Wrapper Class" and "Consuming Iterator in Training Loop", over frames in folders instead of video files.
from __future__ import annotations

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline import pipeline_def
from nvidia.dali.plugin import pytorch


@pipeline_def
def create_sequence_reader_pipeline(sequence_length, file_root, crop_size):
    images = fn.readers.sequence(
        file_root=file_root,
        sequence_length=sequence_length,
        random_shuffle=True,
        image_type=types.RGB,
        initial_fill=16,
        pad_last_batch=True,
        name="Reader",
    )
    images = fn.crop(
        images,
        crop=crop_size,
        dtype=types.FLOAT,
        crop_pos_x=fn.random.uniform(range=(0.0, 1.0)),
        crop_pos_y=fn.random.uniform(range=(0.0, 1.0)),
    )
    images = fn.transpose(images, perm=[3, 0, 1, 2])
    return images


class DALILoader:
    def __init__(self, batch_size, file_root, sequence_length, crop_size):
        self.pipeline = create_sequence_reader_pipeline(
            batch_size=batch_size,
            sequence_length=sequence_length,
            num_threads=2,
            device_id=0,
            file_root=file_root,
            crop_size=crop_size,
        )
        self.pipeline.build()
        self.epoch_size = self.pipeline.epoch_size("Reader")
        self.dali_iterator = pytorch.DALIGenericIterator(
            self.pipeline,
            ["data"],
            reader_name="Reader",
            last_batch_policy=pytorch.LastBatchPolicy.PARTIAL,
            auto_reset=True,
        )

    def __len__(self):
        return int(self.epoch_size)

    def __iter__(self):
        return self.dali_iterator.__iter__()


loader = DALILoader(batch_size=2, file_root="frames", sequence_length=3, crop_size=[32, 48])

for epoch in range(2):
    for i, inputs in enumerate(loader):
        # inputs is a list of dicts; extract the tensor
        data = inputs[0]["data"]  # shape: [B, C, F, H, W]
        print(epoch, i, tuple(data.shape), data.dtype)
print(len(loader))
