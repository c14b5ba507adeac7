"""Where to write, and which replica of the job this is."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from prefect_vertex.delivery.bootstrap.basics import die, env

# All names of the first two pools; where a job has several of one pool's, each has its own ranks.
COUNTED = ("chief", "master", "workerpool0", "worker", "workerpool1")


def writable(path: Path) -> bool:
    """Whether `path`, or the first of its parents that exists, is a directory to write in."""
    while not os.access(path, os.F_OK) and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK | os.X_OK) and path.is_dir()


def prepare_places() -> Path:
    """Point home, Prefect's home and the working directory to where this user may write."""
    try:
        scratch = Path(tempfile.mkdtemp(prefix="prefect-vertex-")).resolve()
    except OSError as error:
        die(73, f"no directory to write in: {error}; set TMPDIR to one")
    home, work = scratch / "home", scratch / "work"
    if not env.get("HOME") or not writable(Path(env["HOME"])):
        home.mkdir()
        env["HOME"] = str(home)
    # An image built as root may have one that only root may read, and importing Prefect fails.
    if not writable(Path(env.get("PREFECT_HOME") or env["HOME"] + "/.prefect")):
        env["PREFECT_HOME"] = str(scratch / "prefect")
    try:
        place = Path.cwd()
    except OSError:
        place = Path("/")
    if not writable(place):
        work.mkdir()
        # The image's own files stay reachable by relative paths: entrypoints are such paths.
        for path in place.iterdir() if place != Path("/") and os.access(place, os.R_OK) else ():
            (work / path.name).symlink_to(path)
        os.chdir(work)
    env.setdefault("PYTHONUNBUFFERED", "1")
    return scratch


def take_place() -> str:
    """Export rank and world size, and return the replica's name within its attempt.

    Parameter servers and evaluators are not counted, and so have no rank.
    """
    rank, size, name = 0, 1, ""
    text = env.get("CLUSTER_SPEC")
    if text:
        try:
            spec = json.loads(text)
            counts = {pool: len(hosts + []) for pool, hosts in spec["cluster"].items()}  # noqa: RUF005 - a text is no list
            pool = spec["task"]["type"]
            # By its text: 1.9 and true would be 1. An evaluator's pool need not be listed.
            rank = range(counts.get(pool, 99 * (pool not in COUNTED))).index(
                int(str(spec["task"]["index"]))
            )
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, such as lists too deep
            die(78, f"CLUSTER_SPEC cannot be read ({error!r}): {text[:500]}")
        # A job with one replica has several spellings of its pool's name.
        if counts != {pool: 1}:
            sizes = [counts.get(each, 0) for each in COUNTED]
            size = sum(sizes)
            if pool in COUNTED:
                rank += sum(sizes[: COUNTED.index(pool)])
            else:
                name = f"{pool}-{rank}"
    given = env.get("PREFECT_VERTEX_RANK")
    if name and not given:
        return name
    env["PREFECT_VERTEX_RANK"] = given = given or str(rank)
    world = env["PREFECT_VERTEX_WORLD_SIZE"] = env.get("PREFECT_VERTEX_WORLD_SIZE") or str(size)
    if not given.isdecimal() or not world.isdecimal() or int(given) >= int(world):
        die(78, f"rank {given} of {world}: set PREFECT_VERTEX_RANK and PREFECT_VERTEX_WORLD_SIZE")
    return given
