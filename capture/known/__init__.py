"""What no input decides: positions, masks made of them, and numbers, known before the program runs."""
