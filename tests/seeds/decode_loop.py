# "Example: Direct Zero-Copy Conversion"
import numpy as np
from nvidia.dali.pipeline import pipeline_def
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.plugin.pytorch.torch_utils import to_torch_tensor

@pipeline_def(batch_size=4, num_threads=4, device_id=0, exec_dynamic=True)
def decode_pipeline(source_name):
    inputs = fn.external_source(
        device="cpu", name=source_name,
        no_copy=False, blocking=True, dtype=types.UINT8,
    )
    decoded = fn.decoders.image(
        inputs, device="mixed", output_type=types.RGB,
        jpeg_fancy_upsampling=True,
    )
    return decoded

pipe = decode_pipeline("encoded_img", prefetch_queue_depth=1)
pipe.build()

from pathlib import Path
for file_name in Path("images/").iterdir():
    encoded = np.expand_dims(np.fromfile(file_name, dtype=np.uint8), axis=0)
    decoded = pipe.run(encoded_img=encoded)
    # Zero-copy conversion to PyTorch CUDA tensor
    img_on_gpu = to_torch_tensor(decoded[0][0], copy=False)
    print(img_on_gpu.shape, img_on_gpu.device)
