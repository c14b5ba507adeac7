"""Pure: a run's wishes become one complete, immutable CreateCustomJobRequest."""
