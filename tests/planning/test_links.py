"""Where a person can look at a job."""

from __future__ import annotations

from prefect_vertex.planning.links import job_links, shell_links
from prefect_vertex.planning.naming import ResourceName

NAME = ResourceName("123456789012", "europe-west4", "42")


def test_a_jobs_pages_are_in_the_project_that_the_user_knows() -> None:
    links = job_links(NAME, "my-project")

    assert links.console == (
        "https://console.cloud.google.com/agent-platform/locations/europe-west4/training/42"
        "?project=my-project"
    )
    assert links.logs == (
        "https://console.cloud.google.com/logs/query;query=resource.labels.job_id%3D%2242%22"
        "?project=my-project"
    )


def test_shells_get_their_scheme_and_the_replicas_order() -> None:
    uris = {
        "workerpool1-10": "c.example.com/x",
        "workerpool1-2": "https://b.example.com",
        "workerpool0-0": "a.example.com",
        "workerpool1-3": "",
    }

    assert list(shell_links(uris).items()) == [
        ("workerpool0-0", "https://a.example.com"),
        ("workerpool1-2", "https://b.example.com"),
        ("workerpool1-10", "https://c.example.com/x"),
    ]
