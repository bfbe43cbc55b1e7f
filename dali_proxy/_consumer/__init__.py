"""The side that fetches: requests in flight, placeholders into tensors, and the device stage in the consumer."""
