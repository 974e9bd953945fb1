"""What changed between two images, or along a whole line of them. Reads, compares, never judges
an image against its lock: that is `audit`."""
