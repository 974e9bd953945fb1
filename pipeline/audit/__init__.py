"""Rules over an image's inventory; each gives findings."""
