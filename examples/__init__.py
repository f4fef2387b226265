"""The models that the gallery, the README and the benchmarks use. Each file has two factories: `small` and `default`."""
