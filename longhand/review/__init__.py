"""The review page: the model's source, model.py and the kernels side by side, and what the scheduler decided."""
