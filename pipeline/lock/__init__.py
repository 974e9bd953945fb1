"""The parts of the lock: its model, its strict reader, its resolver's output and its checks."""
