"""Wheels: find, verify, install into a layer, remove."""
