# "Example: Proxy Integration with PyTorch DataLoader"
import glob
import numpy as np
from pathlib import Path
from torch.utils.data import Dataset

import nvidia.dali.plugin.pytorch.experimental.proxy as dali_proxy
from nvidia.dali import pipeline_def, fn, types

class ImageDataset(Dataset):
    def __init__(self, images_dir, transform=None):
        self.images_dir = images_dir
        self.transform = transform
        self.image_ids = glob.glob("*.jpeg", root_dir=images_dir)

    def __len__(self):
        return len(self.image_ids)

    def __getitem__(self, idx):
        image_path = Path(self.images_dir) / self.image_ids[idx]
        encoded_img = np.expand_dims(
            np.fromfile(image_path, dtype=np.uint8), axis=0
        )
        if self.transform is not None:
            return self.transform(encoded_img)
        return encoded_img

@pipeline_def
def image_pipe(img_hw=(320, 200)):
    encoded_images = fn.external_source(name="images", no_copy=True)
    decoded = fn.decoders.image(
        encoded_images, device="mixed", output_type=types.RGB,
    )
    images = fn.resize(decoded, size=img_hw, interp_type=types.INTERP_LINEAR)
    return images

with dali_proxy.DALIServer(
    image_pipe(batch_size=4, num_threads=4, device_id=0)
) as dali_server:
    dataset = ImageDataset("images/", transform=dali_server.proxy)
    dataloader = dali_proxy.DataLoader(
        dali_server, dataset,
        batch_size=4, num_workers=2, drop_last=True,
    )
    for images in dataloader:
        print(f"Batch shape: {images.shape}")  # torch.Tensor on CUDA
