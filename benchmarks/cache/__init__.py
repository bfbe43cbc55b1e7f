"""The cost of epochs with and without a cache of decoded samples: what hits save, and what misses cost."""
