"""The rules that a plan keeps after every pass, and what checks them."""
