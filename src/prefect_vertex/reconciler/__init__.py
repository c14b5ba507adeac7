"""Observe, decide, act: the loop that keeps every run and its job in step."""
