"""The fetching side: requests in flight, conversion of placeholders to tensors, the device stage."""
