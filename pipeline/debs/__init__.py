"""Debian packages: bring .deb files here and unpack them into a layer without their scripts."""
