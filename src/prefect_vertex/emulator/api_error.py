"""A refusal, on its way to the client as a gRPC status."""

from __future__ import annotations

import grpc


class ApiError(Exception):
    """The call is answered with this status and message instead of a response."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid_argument(message: str) -> ApiError:
    """The request is wrong, whatever the state of the service."""
    return ApiError(grpc.StatusCode.INVALID_ARGUMENT, message)
