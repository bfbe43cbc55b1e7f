"""Operations on many samples in one call, without the GIL and without Python code per sample."""
