"""Bringing bytes from elsewhere: what the download of wheels and of .debs share."""
