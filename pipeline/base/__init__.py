"""What the base image has on top of packages and wheels: CUDA's usual places, its configuration."""
