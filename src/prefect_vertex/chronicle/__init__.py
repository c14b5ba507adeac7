"""Pure: what became of a run's attempts, as one value, and what a person is shown of it."""
