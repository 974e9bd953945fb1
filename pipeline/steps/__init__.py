"""The steps of a build: programs with digests in and digests out."""
