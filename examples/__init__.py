"""The models of the gallery, the README and the benchmarks. Each file has the factories `small` and `default`."""
