"""What the module holds: its tree of modules, where values come from, and what makes several of them."""
