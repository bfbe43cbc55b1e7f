"""Files behind URLs, through fsspec: reading with retries, listing, and a cache on the local disk."""
