"""Ways of showing results."""
