"""`prefect-vertex jobs`: the pool's jobs beside their flow runs, and what to do where they differ.

What is to be done is the reconciler's own decision (`lifecycle.decide`), carried out by its own
steps: there is no second opinion here. `pairing` only says what a person should look at.
"""
