"""Python wheels: the store, the download, the installation into a layer."""
