"""Dynamic mode: tensors, batches and operators that run when they are called."""
