"""Checks of conditions and computed fields, against the other fields that a topology reads."""

from slidestat.declare.derived.reading import ReadFields
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import TIME_IS_READ, field_text
from slidestat.errors import SlidestatError


def check_conditions(topology: ReadFields) -> None:
    """Check the fields that expressions read."""
    numbers = {column.path for column in topology.columns.numbers}
    numbers -= {column.path for column in topology.columns.items}
    for path, sort in topology.asked_fields:
        name, is_number = field_text(path), sort in (Sort.NUMBER, Sort.ANY)
        if path == topology.time_path and (topology.times.is_text or not is_number):
            raise SlidestatError(
                f"an expression reads {name!r}, the time, as a {sort.value}.",
                "Leave it out: the time of an event decides only which windows it is in.",
            )
        if path in numbers and not is_number:
            raise SlidestatError(
                f"an expression reads {name!r} as a {sort.value}, and a statistic as a number.",
                "Compare it with a number, or give the statistic another field.",
            )
        if path in topology.computed_fields:
            raise SlidestatError(
                f"a condition reads {name!r}, which is computed.",
                f"Write {topology.computed_fields[path].expression.text} in its place.",
            )


def check_computed(topology: ReadFields) -> None:
    """Check what computed fields are for."""
    computed = topology.computed_fields
    if topology.time_path in computed:
        raise SlidestatError(
            f"time_field is {topology.time_name!r}, which is computed.",
            TIME_IS_READ,
        )
    if topology.key_path in computed and computed[topology.key_path].sort is Sort.TRUTH:
        raise SlidestatError(
            f"key_field is {topology.key_name!r}, which is a truth value.",
            "Give keys that are texts or whole numbers.",
        )
    for column in topology.columns.numbers:
        if column.path in computed and computed[column.path].sort is not Sort.NUMBER:
            raise SlidestatError(
                f"a statistic reads numbers from {field_text(column.path)!r},"
                f" which is a {computed[column.path].sort.value}.",
                "Compute a number, or ask for a statistic of items.",
            )
    read = {column.path for column in (*topology.columns.numbers, *topology.columns.items)}
    for path in computed:
        if path not in read and path != topology.key_path:
            raise SlidestatError(
                f"computed has {field_text(path)!r}, which neither the key nor a statistic reads.",
                "Take it out, or name it in key_field, value_field or a statistic's field.",
            )
