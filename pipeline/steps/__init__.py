"""Steps: programs with digests in and digests out. They do not know which engine runs them."""
