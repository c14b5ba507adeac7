"""What user code sees of the replicas of its job."""
