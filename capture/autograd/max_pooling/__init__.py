"""Max pooling of small windows on CUDA: its two operators, and the derivative that is made of them."""
