"""Work on whole batches without the GIL: reading files, gathering memory, reusable buffers."""
