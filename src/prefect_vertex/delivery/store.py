"""The staging bucket: an archive is uploaded once, under a name that its content determines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from prefect_vertex.delivery.bucket import GcsBucket
from prefect_vertex.delivery.bundle import Bundle
from prefect_vertex.errors import CodeStoreError
from prefect_vertex.planning.code import CodeReference

_FOLDER = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCode:
    """What an upload came to.

    Attributes:
        reference: Where the archive lies; for `code_uri` and `code_sha256`.
        uploaded: False where it was there already.
    """

    reference: CodeReference
    uploaded: bool


class CodeStore(Protocol):
    """Keeps archives under names that their content determines."""

    def upload(self, bundle: Bundle) -> StoredCode:
        """Store the archive unless it is there; safe to repeat and to race.

        Raises:
            CodeStoreError: The store refused, is missing, or did not answer.
        """
        ...


class GcsCodeStore:
    """A bucket of Cloud Storage, or of its emulator where `STORAGE_EMULATOR_HOST` says so.

    Args:
        location: Bucket name, or `gs://bucket/prefix`. Archives lie below `<prefix>/code/`.
        credentials: google-auth credentials; by default the machine's own (ADC). The emulator
            gets none.
        pause_seconds: Before the first repetition of a failed call; doubled for each further one.

    Raises:
        CodeStoreError: `location` names no bucket.
    """

    def __init__(
        self, location: str, *, credentials: Any = None, pause_seconds: float = 0.5
    ) -> None:
        self._bucket = GcsBucket(
            location,
            setting="staging_bucket (of stage-code: --bucket)",
            credentials=credentials,
            pause_seconds=pause_seconds,
        )
        prefix = self._bucket.prefix
        self._folder = f"{prefix}/{_FOLDER}" if prefix else _FOLDER

    def upload(self, bundle: Bundle) -> StoredCode:
        """Upload the archive unless it is there. Blocks; see `CodeStore.upload`."""
        name = f"{self._folder}/{bundle.name}"
        uri = self._bucket.uri(name)
        with self._bucket.speaking_of(name, "upload"):
            blob = self._bucket.blob(name)
            uploaded = not self._is_there(blob, bundle) and self._create(blob, bundle)
        return StoredCode(reference=CodeReference(uri, bundle.sha256), uploaded=uploaded)

    def _is_there(self, blob: Any, bundle: Bundle) -> bool:
        from google.api_core import exceptions

        try:
            self._bucket.call(blob.reload)
        except (exceptions.NotFound, exceptions.Forbidden):
            # Forbidden: an account that may only create sees nothing.
            return False
        if blob.size != bundle.size:
            raise CodeStoreError(
                f"gs://{blob.bucket.name}/{blob.name} is not the archive of that name: it has"
                f" {blob.size} bytes, not {bundle.size}.",
                hint="Delete it, and stage again.",
            )
        return True

    def _create(self, blob: Any, bundle: Bundle) -> bool:
        from google.api_core import exceptions

        try:
            self._bucket.call(
                blob.upload_from_filename,
                str(bundle.path),
                content_type="application/zip",
                if_generation_match=0,
            )
        except exceptions.PreconditionFailed:
            # Somebody else was quicker, or an answer to our own upload was lost.
            return False
        return True
