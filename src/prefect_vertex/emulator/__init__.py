"""A local Vertex AI JobService that runs the jobs it is given; knows nothing of the worker."""
