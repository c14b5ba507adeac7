"""What a replica runs first: it fetches the code, prepares the environment, starts the command.

Its modules, beginning with `program`, are joined into one that travels in the job's command as
`python3 -c <packed> <command...>` (see `packing`). So they need only the standard library of Python
3.9, hold no dollar sign (the platform rewrites those in commands), give no two things one name and
stay small. It reads its configuration from the environment:

    PREFECT_VERTEX_CODE_URI, PREFECT_VERTEX_CODE_SHA256   the archive, unpacked and put first on
                                                          PYTHONPATH; unset: the image's code
    PREFECT_VERTEX_SETUP_COMMAND                          JSON list of lines of one `sh -e` script
                                                          whose environment the command inherits
    EXTRA_PIP_PACKAGES                                    installed as Prefect's own image does
    PREFECT_API_URL and Prefect's key, auth string,       where the Prefect API must answer from
    headers and TLS settings                              here; unset: not asked
    PREFECT_VERTEX_API_KEY_SECRET,                        Secret Manager's version of the API key or
    PREFECT_VERTEX_API_AUTH_STRING_SECRET                 auth string, exported as Prefect's own
    PREFECT__FLOW_RUN_ID, PREFECT_VERTEX_ATTEMPT          whose start is claimed, if both are set
    PREFECT_VERTEX_GUARD                                  0: it is not, and may start again
    CLUSTER_SPEC, CLOUD_ML_JOB_ID                         the replica's place and its job, as the
                                                          platform sets them
    PREFECT_VERTEX_RANK, PREFECT_VERTEX_WORLD_SIZE        set from CLUSTER_SPEC unless given; a
                                                          parameter server or evaluator has none
    PREFECT_VERTEX_GANG, PREFECT_VERTEX_GANG_SECONDS      set: of several replicas none begins
                                                          before all have checked in with the
                                                          Prefect API, and for how long they wait
                                                          (unset: without a limit)
    PREFECT_VERTEX_REPLICAS                               flow: of several replicas each runs
                                                          `python -m prefect_vertex.replica` in
                                                          place of `prefect flow-run execute`
    STORAGE_EMULATOR_HOST, SECRET_MANAGER_EMULATOR_HOST,  where those services and tokens are asked
    GCE_METADATA_HOST                                     for, if not at Google's own addresses

What goes wrong ends the replica with one line on stderr and one of these codes:

    70   a fault of the bootstrap itself        76        setup_command or EXTRA_PIP_PACKAGES failed
    71   the archive could not be fetched       78        the configuration cannot be read
    72   the archive is not the one expected    126       the command may not be executed
    73   nowhere to write, or no space          127       the command is not there
    74   the Prefect API does not answer, or    128 + n   ended by signal n
         does not know the flow run
    75   this attempt was started before:   77        the secret could not be read
         nothing was run                    79        not all replicas were there in time:
                                                      nothing was run

Status 0 without the command having run means that the flow run needs no start. Otherwise the
command replaces this process. As PID 1 the bootstrap stays instead, as a small init: the kernel
drops a SIGTERM that PID 1 has no handler for, and nobody else would reap orphans.
"""

from __future__ import annotations
