"""`prefect-vertex doctor`: what stands between a pool and a flow run that completes.

Each check is a pure function from answers to findings (`about_…`), tested as a table; `probes`
fetches the answers, and `command` puts them together.
"""
