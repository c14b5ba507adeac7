"""The settings of the worker process, and where it connects."""

from __future__ import annotations

from prefect_vertex.settings import PREFIX, VertexSettings
from rendering.markdown import code, page, table

_CONNECTIONS = (
    (
        "VERTEX_AI_EMULATOR_HOST=host:port",
        (
            "every JobService call goes there, in plain text and without credentials, whatever the "
            "location"
        ),
    ),
    (
        "STORAGE_EMULATOR_HOST=http://host:port",
        "Google's own: Cloud Storage calls go there, the bootstrap's too",
    ),
    (
        "CLOUD_LOGGING_EMULATOR_HOST=host:port",
        "log entries are read there (`stream_output`), in plain text and without credentials",
    ),
    (
        "CLOUD_QUOTAS_EMULATOR_HOST=host:port",
        (
            "quotas are read there (`preflight_quota`, `plan --quota`), in plain text and without "
            "credentials; needs the extra `quota`, on both sides"
        ),
    ),
    (
        "SECRET_MANAGER_EMULATOR_HOST=http://host:port",
        (
            "the bootstrap reads `prefect_api_key_secret` there, over Secret Manager's REST API "
            "and without a token"
        ),
    ),
    ("GCE_METADATA_HOST", "Google's own: where the bootstrap asks for tokens"),
)


def settings_page() -> str:
    """Every field of the settings, and the variables that say where services are."""
    rows = [
        (
            code(f"{PREFIX}{name.upper()}"),
            code(field.get_default(call_default_factory=True)),
            str(field.description),
        )
        for name, field in VertexSettings.model_fields.items()
    ]
    return page(
        "# Settings of the worker process",
        (
            (
                "Set them as environment variables, in `.env`, in `prefect.toml` under "
                "`[integrations.vertex]`, or in `pyproject.toml` under "
                "`[tool.prefect.integrations.vertex]`."
            ),
            "They are read once, when the worker starts, and do not travel to the container.",
            "`prefect config set` knows only Prefect's own names.",
        ),
        table(("variable", "default", "meaning"), rows),
        "## Where it connects",
        table(("variable", "effect"), ((code(name), text) for name, text in _CONNECTIONS)),
    )
