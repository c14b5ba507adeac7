"""Storage for bundles that needs no prefect-gcp: `upload` and `execute` are a work pool's steps.

An ad-hoc run's code is a bundle, a JSON file that Prefect writes. `upload` puts it into a bucket,
from the machine that submits; `execute` runs it, in the container. Prefect starts both as
`<launcher> -m prefect_vertex.bundles.upload|execute --bucket … --key …`, as the work pool says that
`prefect-vertex bundle-storage` has configured.
"""
