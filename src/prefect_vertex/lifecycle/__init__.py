"""Pure: what the service and Prefect say about a run, and what to do next."""
