# "DALILoader Wrapper Class" and "Consuming Iterator in Training Loop"; what the latter leaves open is filled in.
import os
from nvidia.dali.pipeline import pipeline_def
from nvidia.dali.plugin import pytorch
import nvidia.dali.fn as fn
import nvidia.dali.types as types

@pipeline_def
def create_video_reader_pipeline(sequence_length, files, crop_size):
    images = fn.readers.video(
        device="gpu", filenames=files,
        sequence_length=sequence_length, normalized=False,
        random_shuffle=True, image_type=types.RGB,
        dtype=types.UINT8, initial_fill=16,
        pad_last_batch=True, name="Reader"
    )
    images = fn.crop(
        images, crop=crop_size, dtype=types.FLOAT,
        crop_pos_x=fn.random.uniform(range=(0.0, 1.0)),
        crop_pos_y=fn.random.uniform(range=(0.0, 1.0))
    )
    images = fn.transpose(images, perm=[3, 0, 1, 2])
    return images

class DALILoader():
    def __init__(self, batch_size, file_root, sequence_length, crop_size):
        container_files = os.listdir(file_root)
        container_files = [file_root + '/' + f for f in container_files]
        self.pipeline = create_video_reader_pipeline(
            batch_size=batch_size,
            sequence_length=sequence_length,
            num_threads=2,
            device_id=0,
            files=container_files,
            crop_size=crop_size
        )
        self.pipeline.build()
        self.epoch_size = self.pipeline.epoch_size("Reader")
        self.dali_iterator = pytorch.DALIGenericIterator(
            self.pipeline,
            ["data"],
            reader_name="Reader",
            last_batch_policy=pytorch.LastBatchPolicy.PARTIAL,
            auto_reset=True
        )

    def __len__(self):
        return int(self.epoch_size)

    def __iter__(self):
        return self.dali_iterator.__iter__()

from types import SimpleNamespace

import torch

args = SimpleNamespace(batchsize=4, root=".", frames=7, crop_size=[32, 48])
writer = im_out = None
torch.manual_seed(1)
model = torch.nn.Conv3d(3, 3, 3, padding=1).to(torch.device("cuda", 0))
loss_of = model.forward
model.forward = lambda data, i, writer, im_out: torch.mean((loss_of(data / 255) - data / 255) ** 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.03)

# From main.py training loop
loader = DALILoader(
    batch_size=args.batchsize,
    file_root=os.path.join(args.root, "train"),
    sequence_length=args.frames,
    crop_size=args.crop_size
)

for epoch in range(2):
    for i, inputs in enumerate(loader):
        # inputs is a list of dicts; extract the tensor
        data = inputs[0]["data"]       # shape: [B, C, F, H, W]
        data = data.cuda(non_blocking=True)

        optimizer.zero_grad()
        loss = model(data, i, writer, im_out)
        loss.backward()
        optimizer.step()
        print(epoch, i, tuple(data.shape), data.dtype)
        if epoch == i == 0:
            first, before = data, loss.item()
with torch.no_grad():
    after = model(first, i, writer, im_out).item()  # others are other pictures: epochs can't be compared
print("loss falls:", after < before)
print(len(loader))
