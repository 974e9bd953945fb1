"""Text patches: exact edits in named scopes, checked as a whole before a byte is written.

Knows nothing of images: bytes come through a reader, post-images go back as bytes.
"""
