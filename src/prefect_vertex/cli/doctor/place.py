"""Place: what one candidate's job will need, read off its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefect_vertex.planning.spec import Target

if TYPE_CHECKING:
    from prefect_vertex.planning.plan import JobPlan

_API = "PREFECT_API_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a candidate's job needs to be there.

    Attributes:
        service_account: Whom the job runs as; empty: Vertex AI's own agent.
        images: Of its pools, each once.
        buckets: Names of those that it reads or writes, each once.
        secret: The Secret Manager version that holds the API's key; empty: none.
        api_url: PREFECT_API_URL in its first container; empty: not set.
        has_network: Whether it is peered with a network of the user's.
        has_interface: Whether it has an interface in one (Private Service Connect).
        peered_domains: Domains that it resolves in that network.
    """

    target: Target
    service_account: str = ""
    images: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()
    secret: str = ""
    api_url: str = ""
    has_network: bool = False
    has_interface: bool = False
    peered_domains: tuple[str, ...] = ()


def place_of(plan: JobPlan, staging_bucket: str | None) -> Place:
    """What a plan's job needs.

    Args:
        plan: Of one candidate.
        staging_bucket: The candidate's, which a plan alone does not name.
    """
    spec = plan.request.custom_job.job_spec
    candidate = plan.candidate
    interface = spec.psc_interface_config
    uris = [
        staging_bucket or "",
        str(spec.base_output_directory.output_uri_prefix),
        candidate.code.uri if candidate.code else "",
    ]
    return Place(
        target=plan.target,
        service_account=str(spec.service_account),
        images=_once(_images(spec.worker_pool_specs)),
        buckets=_once(bucket_of(uri) for uri in uris),
        secret=next(iter(candidate.api_secrets.values()), ""),
        api_url=_api_url(spec.worker_pool_specs, candidate.env),
        has_network=bool(spec.network),
        has_interface=bool(interface.network_attachment),
        peered_domains=tuple(str(each.domain) for each in interface.dns_peering_configs),
    )


def bucket_of(uri: str) -> str:
    """The bucket's name in `gs://bucket/…` or `bucket/…`; empty for an empty text."""
    return uri.removeprefix("gs://").partition("/")[0]


def _images(pools: Iterable[Any]) -> Iterator[str]:
    for pool in pools:
        yield str(pool.container_spec.image_uri)
        yield str(pool.python_package_spec.executor_image_uri)


def _api_url(pools: Iterable[Any], env: Mapping[str, str]) -> str:
    """As the first container sees it: its own entry wins, and a packed one is in the candidate."""
    first = next(iter(pools), None)
    entries = list(first.container_spec.env) if first is not None else []
    own = {str(entry.name): str(entry.value) for entry in entries}
    return own.get(_API, env.get(_API, ""))


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
