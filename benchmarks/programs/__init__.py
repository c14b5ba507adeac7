"""Programs that a benchmark starts by path, each in the environment that it is meant for."""
