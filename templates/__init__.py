"""Jinja files that hold the shape of what is written. No logic beyond loops and conditions on plan fields."""
