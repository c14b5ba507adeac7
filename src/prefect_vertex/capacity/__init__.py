"""Pure: where a run may be tried, and in which order."""
