"""Everything random in the emulator, from one seed.

With the same seed and the same jobs in the same order, ids, host names and durations are the same.
"""

from __future__ import annotations

import random
import secrets


class Chance:
    """Draws; each job has a source of its own, so that what others do does not change it.

    Args:
        seed: None for one that nobody has had before.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbits(64) if seed is None else seed
        self._ids = random.Random(f"{self.seed}/ids")  # noqa: S311 - nothing here is a secret

    def job_id(self) -> str:
        """Nineteen digits that fit a signed 64-bit number, as the service's do."""
        return str(10**18 + self._ids.randrange(8 * 10**18))

    def of_job(self, job_id: str) -> random.Random:
        """The source of one job."""
        return random.Random(f"{self.seed}/{job_id}")  # noqa: S311 - nothing here is a secret
