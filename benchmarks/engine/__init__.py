"""What the JPEG engine costs a training in the same process, when a thread without Python feeds it."""
