"""READABILITY as a program: ``python -m benchmarks.readability [--update] [--only WORD]``.

What a person would stumble over is counted in units of small models that no gallery holds, and compared with the counts
of before. Nothing is built or run: the text is enough, so CUDA's is read without a GPU.
"""
