"""A client for registries, after the OCI distribution specification 1.1. Streams everything."""
