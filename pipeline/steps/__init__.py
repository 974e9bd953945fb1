"""Steps: programs with digests in and digests out. They know nothing of the engine that runs them."""
