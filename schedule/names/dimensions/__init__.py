"""A word for every dimension: from users' statements, through operations, forwards and backwards."""
