"""google.api.cloudquotas.v1.CloudQuotas: the limits that jobs are held to, as Google tells them.

Limits only: what jobs hold is not in it, as it is not in the real service.  Served where the
google-cloud-quotas package is installed, whose messages it needs; who asks needs it as well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import grpc
import grpc.aio

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.api_error import invalid_argument
from prefect_vertex.emulator.front import Front
from prefect_vertex.emulator.quotas import QuotaLimit, Quotas

METHOD: Final = "ListQuotaInfos"
REGIONS: Final = (
    "asia-east1",
    "asia-northeast1",
    "asia-northeast3",
    "asia-south1",
    "asia-southeast1",
    "australia-southeast1",
    "europe-west1",
    "europe-west2",
    "europe-west3",
    "europe-west4",
    "northamerica-northeast1",
    "us-central1",
    "us-east1",
    "us-east4",
    "us-east5",
    "us-west1",
    "us-west2",
    "us-west3",
    "us-west4",
)
"""Where a limit for all locations applies."""

_SERVICE: Final = "google.api.cloudquotas.v1.CloudQuotas"
_PACKAGE: Final = "google.cloud.cloudquotas_v1"
_PARENT: Final = re.compile(r"projects/([^/]+)/locations/global/services/([^/]+)")
_LARGEST_PAGE: Final = 500


class QuotaService(grpc.GenericRpcHandler):
    """The servicer; answers nothing where the package is missing.

    Args:
        quotas: Whose limits.
        front: What every call goes through.
    """

    def __init__(self, quotas: Quotas, front: Front) -> None:
        self._quotas = quotas
        self._front = front
        self._is_installed = find_spec(_PACKAGE) is not None

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Find the method that was called; None for the next servicer to answer."""
        if not self._is_installed or handler_call_details.method != f"/{_SERVICE}/{METHOD}":
            return None

        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            return await self._front.answer(METHOD, self._list, request, context)

        return grpc.unary_unary_rpc_method_handler(
            answer,
            self._messages.ListQuotaInfosRequest.deserialize,
            self._messages.ListQuotaInfosResponse.serialize,
        )

    @cached_property
    def _messages(self) -> Any:
        """The package, loaded when somebody asks: it takes half a second."""
        return import_module(_PACKAGE)

    def _list(self, request: Any) -> Any:
        match = _PARENT.fullmatch(request.parent)
        if match is None:
            raise invalid_argument(f'Invalid parent "{request.parent}".')
        infos = []
        if match[2] == wordings.SERVICE_NAME:
            infos = [*self._rates(request.parent), *self._limits(request.parent)]
        start = int(request.page_token or 0)
        end = start + min(request.page_size or _LARGEST_PAGE, _LARGEST_PAGE)
        return self._messages.ListQuotaInfosResponse(
            quota_infos=infos[start:end], next_page_token=str(end) if end < len(infos) else ""
        )

    def _rates(self, parent: str) -> list[Any]:
        """The documented calls a minute: they are listed beside the rest."""
        return [
            self._messages.QuotaInfo(
                name=f"{parent}/quotaInfos/{quota.limit_id}",
                quota_id=quota.limit_id,
                metric=quota.metric_id,
                service=wordings.SERVICE_NAME,
                refresh_interval="minute",
                dimensions=["region"],
                dimensions_infos=[_entry("", limit, REGIONS)],
            )
            for quota, limit in (
                (wordings.SUBMISSION_QUOTA_INFERRED, 60),
                (wordings.CALL_QUOTA_INFERRED, 600),
            )
        ]

    def _limits(self, parent: str) -> list[Any]:
        by_metric: dict[str, list[QuotaLimit]] = defaultdict(list)
        for limit in self._quotas.limits:
            by_metric[limit.metric].append(limit)
        return [
            self._messages.QuotaInfo(
                name=f"{parent}/quotaInfos/{_quota_id(metric)}",
                quota_id=_quota_id(metric),
                metric=f"{wordings.SERVICE_NAME}/{metric}",
                service=wordings.SERVICE_NAME,
                is_precise=True,
                dimensions=["region"],
                dimensions_infos=_entries(limits),
            )
            for metric, limits in sorted(by_metric.items())
        ]


def _entries(limits: Iterable[QuotaLimit]) -> list[Mapping[str, Any]]:
    """The more specific first, as in the real service."""
    ordered = sorted(limits, key=lambda limit: (not limit.location, limit.location))
    named = {limit.location for limit in ordered}
    others = [region for region in REGIONS if region not in named]
    return [
        _entry(limit.location, limit.limit, [limit.location] if limit.location else others)
        for limit in ordered
    ]


def _entry(region: str, value: int, locations: Iterable[str]) -> Mapping[str, Any]:
    return {
        "dimensions": {"region": region} if region else {},
        "details": {"value": value},
        "applicable_locations": list(locations),
    }


def _quota_id(metric: str) -> str:
    """Such as CustomModelTrainingCpusPerProjectPerRegion; real ids cannot be derived."""
    return "".join(part.capitalize() for part in metric.split("_")) + "PerProjectPerRegion"
