"""The adapter to Prefect's API: runs by pool and by id, proposals, labels, leases."""
