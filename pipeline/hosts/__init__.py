"""Container runtimes, on this machine and on others over ssh."""
