"""What is known of a unit's text before anything of it is written."""
