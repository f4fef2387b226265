"""Contractions: which templates there are for matmuls and convolutions, and what is moved into them."""
