"""Engines: where steps run. They know keys, directories and order, and nothing of what a step does."""
