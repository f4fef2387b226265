"""A kernel given away to be edited (to a person, a search, a language model), and judged when it comes back."""
