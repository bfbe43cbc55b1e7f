"""`DALIServer`: its lifetime, the placement of the pipeline's stages, and its statistics."""
