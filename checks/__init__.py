"""Checks by hand: what needs hours, emulation, or a compiler; each is a nox session."""
