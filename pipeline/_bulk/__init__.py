"""What is done for many samples in one call, without the GIL and with no Python for each of them."""
