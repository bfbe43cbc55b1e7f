# "Standard Training Loop Integration", "Validation with PARTIAL Last-Batch Policy", "Querying Dataset Size"; what these
# fragments leave open is filled in above them and between them.
from __future__ import annotations

import math

import torch
from nvidia.dali import fn, pipeline_def, types


@pipeline_def(num_threads=2, device_id=0, seed=12)
def create_pipeline(data_dir, shuffle):
    images, labels = fn.readers.file(file_root=data_dir, random_shuffle=shuffle, pad_last_batch=True, name="Reader")
    images = fn.decoders.image(images, device="mixed", output_type=types.RGB)
    images = fn.resize(images, size=(64, 64))
    images = fn.crop_mirror_normalize(images, mean=[128.0] * 3, std=[64.0] * 3, dtype=types.FLOAT, output_layout="CHW")
    return images, labels.gpu()


batch_size = 5
train_pipe = create_pipeline("classes", True, batch_size=batch_size)
train_pipe.build()
val_pipe = create_pipeline("classes", False, batch_size=batch_size)
val_pipe.build()

device = torch.device("cuda", 0)
model = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, 3)).to(device)
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

from nvidia.dali.plugin.pytorch import DALIClassificationIterator, LastBatchPolicy

# After pipeline is built:
train_loader = DALIClassificationIterator(
    train_pipe,
    reader_name="Reader",
    last_batch_policy=LastBatchPolicy.PARTIAL,
    auto_reset=True,
)

for epoch in range(2):
    losses = []
    for i, data in enumerate(train_loader):
        images = data[0]["data"]  # [B, 3, 224, 224] float32 on GPU
        labels = data[0]["label"].squeeze(-1).long()  # [B] int64 on GPU
        output = model(images)
        loss = criterion(output, labels)
        # ... backward, optimizer step, etc.
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(len(labels) * loss.item())
    print(f"epoch {epoch}: {i + 1} batches")
    assert epoch == 0 or sum(losses) < last
    last = sum(losses)

val_loader = DALIClassificationIterator(
    val_pipe,
    reader_name="Reader",
    last_batch_policy=LastBatchPolicy.PARTIAL,
    auto_reset=True,
)

# All validation samples are evaluated, including partial final batch
counts = [0, 0, 0]
for data in val_loader:
    images = data[0]["data"]
    labels = data[0]["label"].squeeze(-1).long()
    with torch.no_grad():
        output = model(images)
    assert len(output) == len(labels)
    for label in labels.tolist():
        counts[label] += 1
print(f"validated: {counts}")

# The iterator exposes the dataset size through the _size attribute:
train_loader_len = int(math.ceil(train_loader._size / batch_size))
print(f"Training iterations per epoch: {train_loader_len}")
