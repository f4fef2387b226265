"""Attention as one call: what people write as two products and a softmax, and heads in groups."""
