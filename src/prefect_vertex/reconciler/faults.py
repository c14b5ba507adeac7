"""Faults that nobody foresaw, in full in the worker's log, which no address's password reaches."""

from __future__ import annotations

import logging

from prefect_vertex.planning.addresses import trace_of


def log_fault(logger: logging.Logger, error: Exception, text: str, *args: object) -> None:
    """Log what went on in spite of an error, with its traceback.

    `Logger.exception` would write the error as it is, and httpx quotes the API's whole address.
    """
    logger.log(logging.ERROR, "%s\n%s", text % args, trace_of(error))
