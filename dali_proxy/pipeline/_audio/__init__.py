"""Audio primitives on the CPU: functions that process one signal in NumPy arrays, independent of graphs and threads."""
