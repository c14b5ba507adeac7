"""Both workers on one emulator, measured side by side: `python -m benchmarks`; see README.md."""
