"""Debian packages: the download, the unpacking into a layer."""
