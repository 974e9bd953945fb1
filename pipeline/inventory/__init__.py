"""What is installed in an image: distributions, who owns which file. Reads, never judges."""
