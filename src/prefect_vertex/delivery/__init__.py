"""Code to the container: a bundle, a bucket, and the bootstrap that fetches it."""
