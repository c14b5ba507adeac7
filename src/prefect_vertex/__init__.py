"""A Prefect worker for Vertex AI CustomJobs."""
