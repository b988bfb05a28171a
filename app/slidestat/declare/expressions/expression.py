"""An expression that was read and checked: what it computes, and which fields it reads as what."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from slidestat.declare.expressions.nodes import (
    ARITHMETIC,
    CAST_TYPES,
    CASTS,
    COMPARISONS,
    Call,
    FieldValue,
    Literal,
    Node,
    Sort,
    fields_of,
    name_text,
    text_of,
)
from slidestat.declare.expressions.parsing import parsed, parsed_with_name
from slidestat.declare.fields import FieldPath, field_path, field_text
from slidestat.declare.values import require_list
from slidestat.errors import SlidestatError

# The sort of each field of an expression.
#
# SQL has a schema for that, events have none: a field has the sort that its place asks for. In
# `status >= 500` it is a number, in `a = b` both are of one sort.

_AS_WRITTEN = "Numbers are written 500, texts '500', truth values true."
_ORDERED = frozenset(("<", "<=", ">", ">="))


class _Class:
    """Parts that are of one sort, which is not known at first; `part` is one of them."""

    def __init__(self, part: Node, sort: Sort | None = None) -> None:
        self.part = part
        self.sort = sort
        self.joined: _Class | None = None

    def root(self) -> "_Class":
        return self if self.joined is None else self.joined.root()


class _Sorts:
    """The sorts of the parts of one expression."""

    def __init__(self, text: str, what: str, read: Sort | None = None) -> None:
        self._read = read
        self._says = f"{what} is {text!r}"
        self._fields: dict[FieldPath, _Class] = {}
        self._ordered: list[_Class] = []
        self._cast: list[tuple[_Class, Call]] = []

    def of(self, node: Node) -> _Class:
        """Return the sort of a part, with all that follows for its own parts."""
        match node:
            case Call(operator, (value, Literal(str(kind)))) if operator in CASTS:
                self._cast.append((self.of(value), node))
                return _Class(node, CAST_TYPES[kind])
            case FieldValue(path):
                return self._fields.setdefault(path, _Class(node, self._read))
            case Literal(None):
                return _Class(node)
            case Literal(bool()):
                return _Class(node, Sort.TRUTH)
            case Literal(str()):
                return _Class(node, Sort.TEXT)
            case Literal():
                return _Class(node, Sort.NUMBER)
            case Call(operator, operands):
                return self._of_call(node, operator, operands)

    def _of_call(self, node: Node, operator: str, operands: Sequence[Node]) -> _Class:
        if operator == "is null":
            self.of(operands[0])
            return _Class(node, Sort.TRUTH)
        if operator in COMPARISONS or operator == "in":
            kinds = self._same(operands)
            if operator in _ORDERED:
                self._ordered.append(kinds)
            return _Class(node, Sort.TRUTH)
        if operator == "ago":
            if self._read is None:
                raise SlidestatError(
                    f"{self._says}: {text_of(node)} is of figures, and this reads events.",
                    "Give it to having, or to an alert.",
                )
            return self._all(operands[:1], Sort.NUMBER)
        if operator == "coalesce":
            return self._same(operands)
        if operator == "case":
            self._all(operands[:-1:2], Sort.TRUTH)
            return self._same([*operands[1::2], operands[-1]])
        if operator in ARITHMETIC or operator == "negate":
            return self._all(operands, Sort.NUMBER)
        if operator in ("||", "lower", "upper"):
            return self._all(operands, Sort.TEXT)
        if operator == "substring":
            return self._all(operands[:1], Sort.TEXT)
        if operator == "like":
            self._all(operands[:1], Sort.TEXT)
            return _Class(node, Sort.TRUTH)
        self._all(operands, Sort.TRUTH)  # and, or, not, is true, is false
        return _Class(node, Sort.TRUTH)

    def _same(self, nodes: Sequence[Node]) -> _Class:
        first, *others = map(self.of, nodes)
        for other in others:
            self.join(first, other)
        return first

    def _all(self, nodes: Sequence[Node], sort: Sort) -> _Class:
        wanted = _Class(nodes[0], sort)
        for node in nodes:
            self.join(self.of(node), _Class(node, sort))
        return wanted

    def join(self, one: _Class, other: _Class) -> None:
        """Join two classes into one of one sort; raises SlidestatError if their sorts differ."""
        one, other = one.root(), other.root()
        if one is other:
            return
        if one.sort is not None and other.sort is not None and one.sort is not other.sort:
            part = one.part if isinstance(one.part, FieldValue) else other.part
            raise SlidestatError(
                f"{self._says}: {text_of(part)} is a {one.sort.value} in one place and a"
                f" {other.sort.value} in another.",
                _AS_WRITTEN,
            )
        other.joined = one
        one.sort = one.sort or other.sort
        if not isinstance(one.part, FieldValue):
            one.part = other.part

    def fields(self) -> dict[FieldPath, Sort]:
        for kinds in self._ordered:
            if kinds.root().sort is Sort.TRUTH:
                raise SlidestatError(
                    f"{self._says}: {text_of(kinds.root().part)} is a truth value, which is not"
                    " more or less than another.",
                    "Compare it with = or <>.",
                )
        for kinds, call in self._cast:
            self._check_cast(kinds.root(), call)
        return {path: kinds.root().sort or Sort.ANY for path, kinds in self._fields.items()}

    def _check_cast(self, value: _Class, call: Call) -> None:
        """Raise SlidestatError for a cast of a sort that has no meaning; a value of which nothing
        else tells the sort is read as it is.
        """
        if value.sort is None:
            value.sort = Sort.SCALAR
        (what, kind) = call.operands
        if value.sort is Sort.TRUTH and kind != Literal("varchar"):
            raise SlidestatError(
                f"{self._says}: {text_of(what)} is a truth value, which is no number.",
                f"Write case when {text_of(what)} then 1 else 0 end.",
            )
        if value.sort is Sort.NUMBER and kind == Literal("timestamp"):
            raise SlidestatError(
                f"{self._says}: {text_of(what)} is a number, and texts are cast to timestamps.",
                "Compute with the number as it is: a timestamp is milliseconds since 1970.",
            )

    def check_known(self, node: Node) -> None:
        """Raise SlidestatError where a field of an unknown sort is used, or one is compared with a
        text in double quotes.
        """
        if not isinstance(node, Call):
            return
        if node.operator in ("=", "<>", "in"):
            self._check_quotes(node.operands[0], node.operands[1:])
        for operand in node.operands:
            self.check_known(operand)
            if not isinstance(operand, FieldValue) or node.operator == "is null":
                continue
            if self._fields[operand.path].root().sort is None:
                raise SlidestatError(
                    f"{self._says}: nothing shows whether {field_text(operand.path)!r} is a number"
                    " or a text.",
                    f"Write {text_of(operand)} + 0 for a number, {text_of(operand)} || '' for a"
                    " text.",
                )

    def _check_quotes(self, value: Node, others: Sequence[Node]) -> None:
        """Raise SlidestatError where a value is compared with a text in double quotes, as most
        languages write texts: in SQL that is a field, which no event has.
        """
        for other in others:
            if not isinstance(other, FieldValue) or not other.is_quoted:
                continue
            if self._fields[other.path].root().sort in (None, Sort.TEXT):
                name = other.path[0]
                raise SlidestatError(
                    f'{self._says}: "{name}" in double quotes is a field of the events.',
                    f"Write a text in single quotes: {text_of(value)} ="
                    f" {text_of(Literal(name))}; and a field of texts as \"{name}\" || ''.",
                )


def sorts_of(
    node: Node, wanted: Sort, text: str, what: str, read: Sort | None = None
) -> dict[FieldPath, Sort]:
    """Return the sort of each field of an expression that is to be of the sort `wanted`; all are of
    the sort `read`, where that is known.

    Raises SlidestatError, naming `what` and the field at fault, where a part would be of two sorts.
    """
    sorts = _Sorts(text, what, read)
    found = sorts.of(node)
    if found.root().sort not in (None, wanted):
        raise SlidestatError(
            f"{what} is {text!r}, a {found.root().sort.value}, not a {wanted.value}.",  # type: ignore[union-attr]
            "Write a condition, such as status >= 500." if wanted is Sort.TRUTH else _AS_WRITTEN,
        )
    sorts.join(found, _Class(node, wanted))
    fields = sorts.fields()
    sorts.check_known(node)
    return fields


def sort_of(node: Node, text: str, what: str) -> tuple[Sort, dict[FieldPath, Sort]]:
    """Return the sort of an expression, and that of each of its fields.

    Raises SlidestatError as `sorts_of`, and where its sort does not follow from its parts.
    """
    sorts = _Sorts(text, what)
    found = sorts.of(node).root()
    fields = sorts.fields()
    sorts.check_known(node)
    if found.sort is None:
        raise SlidestatError(
            f"{what} is {text!r}, and nothing shows whether it is a number or a text.",
            "Write FIELD + 0 for a number, FIELD || '' for a text.",
        )
    return found.sort, fields


@dataclass(frozen=True)
class Expression:
    """An expression of one sort; `fields` are the paths that it reads, each with its sort. Equal if
    it computes the same in the same way, however it was written.
    """

    node: Node
    fields: tuple[tuple[FieldPath, Sort], ...]

    @cached_property
    def text(self) -> str:
        """The expression as SQL, always written the same way."""
        return text_of(self.node)

    @property
    def paths(self) -> tuple[FieldPath, ...]:
        """Return the paths of the fields that it reads."""
        return tuple(path for path, _ in self.fields)


def condition_of(text: str, what: str) -> Expression | None:
    """Return the condition in a text; None if it is empty. Raises SlidestatError as `condition`."""
    if not isinstance(text, str):
        raise SlidestatError(f"{what} is {text!r}, which is no text.", 'Write "status >= 500".')
    return condition(text, what) if text else None


@lru_cache(maxsize=1_000)
def condition(text: str, what: str, read: Sort | None = None) -> Expression:
    """Return the condition in a text; NULL of it is not true. All fields are read as the sort
    `read`, where that is known.

    Raises SlidestatError, naming `what` and the field at fault, for what is none. Costs a
    millisecond the first time.
    """
    node = parsed(text, what)
    if not any(fields_of(node)):
        raise SlidestatError(
            f"{what} is {text!r}, which reads no field.",
            "Write a condition, such as status >= 500.",
        )
    return Expression(node, tuple(sorts_of(node, Sort.TRUTH, text, what, read).items()))


# Fields that are computed from others of an event: "latency_ms / 1000 as latency_s".


@dataclass(frozen=True)
class ComputedField:
    """A field of the name `path`, and what it is: an expression of a sort."""

    path: FieldPath
    expression: Expression
    sort: Sort

    @property
    def text(self) -> str:
        """The computed field as SQL, always written the same way."""
        return f"{self.expression.text} as {name_text(self.path[0])}"


def computed_fields(texts: Sequence[str], what: str) -> dict[FieldPath, ComputedField]:
    """Return the computed fields that texts declare, by their paths.

    Raises SlidestatError, naming `what` and the text at fault, for what is none, for two of one
    name, and for one that reads another, or itself.
    """
    advice = 'Write a list, also of a single one: ["latency_ms / 1000 as latency_s"].'
    require_list(what, texts, advice)
    found: dict[FieldPath, ComputedField] = {}
    for text in texts:
        if not isinstance(text, str):
            raise SlidestatError(
                f"{what} has {text!r}, which is no text.", 'Write "latency_ms / 1000 as latency_s".'
            )
        field = _computed_field(text, what)
        if field.path in found:
            raise SlidestatError(
                f"{what} has {field.path[0]!r} twice.", "Give each field a name of its own."
            )
        found[field.path] = field
    for field in found.values():
        read = next((path for path in field.expression.paths if path in found), None)
        if read is not None:
            raise SlidestatError(
                f"{what} has {field.path[0]!r}, which reads the computed field {read[0]!r}.",
                "Read fields that events have, and give computed ones names that no event has.",
            )
    return found


@lru_cache(maxsize=1_000)
def _computed_field(text: str, what: str) -> ComputedField:
    node, name = parsed_with_name(text, what, "latency_ms / 1000 as latency_s")
    if not any(fields_of(node)):
        raise SlidestatError(
            f"{what} has {text!r}, which reads no field.",
            "Write an expression over fields: latency_ms / 1000 as latency_s.",
        )
    sort, fields = sort_of(node, text, what)
    return ComputedField(field_path([name], what), Expression(node, tuple(fields.items())), sort)
