"""OCI images as bytes: layers, their indexes, manifests, layouts. Knows no Python packages."""
