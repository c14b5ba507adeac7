"""Plain values to what a protobuf message takes, or an error that names the key at fault.

The walk goes by the message's own descriptor, so that a field of a newer client release is taken
without a change here, and no key is ever ignored. Descriptors are used, never imported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.scheduling import parse_duration
from prefect_vertex.planning.spelling import closest, numeral, shown, snake_case

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

# google/protobuf/descriptor.proto, FieldDescriptorProto.Type.
_FLOATS = {1, 2}
_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)
_INTEGERS = {
    **dict.fromkeys((5, 15, 17), _INT32),
    **dict.fromkeys((3, 16, 18), _INT64),
    **dict.fromkeys((7, 13), (0, 2**32 - 1)),
    **dict.fromkeys((4, 6), (0, 2**64 - 1)),
}
_BOOL = 8
_STRING = 9
_LABEL_REPEATED = 3
_POOLS = "worker_pool_specs"

_VARIABLE_OF = {
    "container_spec": "image",
    "env": "env",
    "image_uri": "image",
    "kms_key_name": "encryption_spec_key",
    "machine_spec": "machine_type",
    "network_attachment": "psc_interface_config",
    "output_uri_prefix": "base_output_directory",
    "service_account": "service_account_name",
    "timeout": "scheduling",
}
"""Job variables whose name is not that of the field they fill."""

_NO_VARIABLES = ("job_spec", "job_spec_patch", "scheduling")


def without_nulls(value: Any) -> Any:
    """A deep copy in which a null is as good as absent, and so is a mapping emptied by that.

    Elements of lists keep their place: an empty pool is how Vertex AI is told to skip one, and a
    null is as good as that. In any other list a null is left to be refused. In an env a null is
    kept: it unsets what all containers have.
    """
    if isinstance(value, Mapping):
        pruned = {
            key: dict(item) if key == "env" and isinstance(item, Mapping) else without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
        pools = pruned.get(_POOLS)
        if isinstance(pools, list):
            pruned[_POOLS] = [{} if pool is None else pool for pool in pools]
        return {key: item for key, item in pruned.items() if item != {}}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [without_nulls(item) for item in value]
    return value


def message_values(descriptor: Descriptor, given: object, path: str) -> dict[str, Any]:
    """What `given` says, in the types that the message's constructor takes.

    Durations may be numbers of seconds, `"1800s"` or ISO 8601; enums names in any case or numbers;
    numbers may be written as text.

    Args:
        descriptor: The message's descriptor.
        given: A mapping by field name in snake_case; nulls are skipped.
        path: Where the mapping stands, for messages.

    Raises:
        PlanError: An unknown key, a value of another type, or two members of a oneof.
    """
    if not isinstance(given, Mapping):
        raise _wrong(path, given, "a mapping")
    values: dict[str, Any] = {}
    members: dict[str, str] = {}
    for key, item in given.items():
        field = descriptor.fields_by_name.get(str(key))
        if field is None:
            raise _unknown_key(descriptor, str(key), path)
        if item is None:
            continue
        oneof = field.containing_oneof
        if oneof is not None and members.setdefault(oneof.name, field.name) != field.name:
            raise PlanError(
                f"{path} has both {members[oneof.name]} and {field.name}.",
                variable="job_spec",
                hint="Keep one of them.",
            )
        values[field.name] = _field_value(field, item, f"{path}.{key}")
    return values


def check_keys(descriptor: Descriptor, given: object, path: str) -> None:
    """Refuse a key that the message or one below it does not have; values are not judged.

    It runs before anything is read from a spec, so that a misspelt key is called that, and not a
    value that is missing.

    Raises:
        PlanError: There is one.
    """
    if not isinstance(given, Mapping):
        return
    for key, value in given.items():
        field = descriptor.fields_by_name.get(str(key))
        if field is None:
            raise _unknown_key(descriptor, str(key), path)
        message = field.message_type
        if message is None or message.GetOptions().map_entry:
            continue
        if not _is_repeated(field):
            check_keys(message, value, f"{path}.{key}")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for index, item in enumerate(value):
                check_keys(message, item, f"{path}.{key}[{index}]")


def whole_number(value: object, path: str) -> int:
    """An integer, also one written as text or as a float without a fraction.

    Raises:
        PlanError: It is not one.
    """
    try:
        if isinstance(value, str):
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
    except ValueError:
        pass
    raise _wrong(path, value, "a whole number")


def unknown_enum_numbers(message: Message, path: str) -> Iterator[str]:
    """A warning for each enum in a message that the installed client has no name for.

    Vertex AI may know one that is newer.
    """
    for field, value in message.ListFields():
        if field.enum_type is not None and not _is_repeated(field):
            if value not in field.enum_type.values_by_number:
                yield (
                    f"{path}.{field.name} is {value}, which the installed client does not know; "
                    "it is sent as it is."
                )
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            repeated = _is_repeated(field)
            for index, item in enumerate(value if repeated else [value]):
                place = f"{path}.{field.name}" + (f"[{index}]" if repeated else "")
                yield from unknown_enum_numbers(item, place)


def enum_name(value: str) -> str:
    """An enum's name as the API spells it: `flex-start` becomes `FLEX_START`."""
    return snake_case(value).upper()


def _is_repeated(field: FieldDescriptor) -> bool:
    # protobuf 7 has no `label` any more, protobuf 5 no `is_repeated` yet.
    repeated = getattr(field, "is_repeated", None)
    return bool(getattr(field, "label", 0) == _LABEL_REPEATED if repeated is None else repeated)


def _field_value(field: FieldDescriptor, value: object, path: str) -> Any:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        if not isinstance(value, Mapping):
            raise _wrong(path, value, "a mapping")
        inner = message.fields_by_name["value"]
        return {str(key): _single(inner, item, f"{path}.{key}") for key, item in value.items()}
    if _is_repeated(field):
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise _wrong(path, value, "a list")
        return [_single(field, item, f"{path}[{index}]") for index, item in enumerate(value)]
    return _single(field, value, path)


def _single(field: FieldDescriptor, value: object, path: str) -> Any:
    message, enum, kind = field.message_type, field.enum_type, field.type
    if message is not None:
        if message.full_name == "google.protobuf.Duration":
            return parse_duration(value, path)
        return message_values(message, value, path)
    if enum is not None:
        return _enum_number({item.name: item.number for item in enum.values}, value, path)
    if kind == _STRING and isinstance(value, str):
        return _text(value, path)
    if kind == _BOOL:
        return _boolean(value, path)
    if kind in _INTEGERS:
        return _within(whole_number(value, path), _INTEGERS[kind], path)
    if kind in _FLOATS and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value, path)
    raise _wrong(path, value, "text" if kind == _STRING else "a number")


def _within(number: int, bounds: tuple[int, int], path: str) -> int:
    smallest, largest = bounds
    if smallest <= number <= largest:
        return number
    raise _wrong(path, number, f"a whole number from {smallest} to {largest}")


def _finite(value: float, path: str) -> float:
    try:
        if math.isfinite(number := float(value)):
            return number
    except OverflowError:
        pass
    raise _wrong(path, value, "a finite number")


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        # JSON can hold half of a character; a message cannot.
        raise _wrong(path, value, "text without lone surrogates") from error
    return value


def _boolean(value: object, path: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise _wrong(path, value, "true or false")


def _enum_number(known: Mapping[str, int], value: object, path: str) -> int:
    if isinstance(value, str):
        if (number := numeral(value)) is not None:
            return _within(number, _INT32, path)
        name = enum_name(value)
        if name not in known:
            raise PlanError(
                f"{path} is {shown(value)}, which is not one of its values; "
                f"the closest is {closest(name, known)}.",
                variable=variable_of(path),
                hint=f"Use one of: {', '.join(known)}.",
            )
        return known[name]
    return _within(whole_number(value, path), _INT32, path)


def variable_of(path: str) -> str:
    """The job variable that most likely filled the field at this path."""
    leaf = path.rpartition(".")[2].partition("[")[0]
    return _VARIABLE_OF.get(leaf, leaf)


def path_of(path: str, variable: str) -> str:
    """The path as a message shows it: with the job variable, where that has another name."""
    is_said = variable in path or variable in _NO_VARIABLES
    return path if is_said else f"{variable} ({path})"


def _unknown_key(descriptor: Descriptor, key: str, path: str) -> PlanError:
    return PlanError(
        f"{path} has no field {key!r}; the closest is {closest(key, descriptor.fields_by_name)!r}.",
        variable="job_spec",
    )


def _wrong(path: str, value: object, expected: str) -> PlanError:
    variable = variable_of(path)
    return PlanError(
        f"{path_of(path, variable)} is {shown(value)}, expected {expected}.", variable=variable
    )
