"""sm121-chain: a reproducible build system for patched inference images on NVIDIA GB10 (SM121)."""
