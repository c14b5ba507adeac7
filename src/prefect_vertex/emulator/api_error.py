"""A refusal, on its way to the client as a gRPC status with Google's error details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

DOMAIN: Final = "googleapis.com"


class ApiError(Exception):
    """The call is answered with this status and message instead of a response.

    Args:
        code: The status.
        message: Its text.
        details: Messages of google.rpc, such as ErrorInfo, that travel in the trailers.
    """

    def __init__(self, code: grpc.StatusCode, message: str, *details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    @property
    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        """The details as every Google service sends them; empty without any."""
        if not self.details:
            return ()
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        for detail in self.details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        return (("grpc-status-details-bin", status.SerializeToString()),)


def invalid_argument(message: str) -> ApiError:
    """The request is wrong, whatever the state of the service."""
    return ApiError(grpc.StatusCode.INVALID_ARGUMENT, message)


def error_info(reason: str, metadata: Mapping[str, str], domain: str = DOMAIN) -> Any:
    """What tells one cause of a status from another."""
    return error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=dict(metadata))


def retry_info(seconds: float) -> Any:
    """When to come back."""
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromNanoseconds(round(seconds * 1e9))
    return info
