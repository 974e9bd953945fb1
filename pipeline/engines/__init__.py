"""Engines: where steps run. They know keys, directories and order, never what a step does."""
