"""From a built image to a tag: the smoke run, the gate, the tags, the record of a release."""
