"""The nodes of an expression: literals, fields, and calls of operators.

Texts are compared and joined, numbers are doubles, and whole numbers beyond those; there is NULL in
all sorts, and truth has three values. `text_of` writes an expression, the same one always the same
way: declarations are compared by it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from slidestat.declare.fields import FieldPath


class Sort(Enum):
    """The sort of a value."""

    NUMBER = "number"
    TEXT = "text"
    TRUTH = "truth value"
    # A field that is only tested for being there.
    ANY = "value"
    # A field that is only cast: it may be any of the first three, and is read as a text, as items
    # are.
    SCALAR = "text or number"


@dataclass(frozen=True)
class Literal:
    """A number, a text, a truth value, or None for NULL; an int is a whole number that no double
    is, and a Decimal one from 2^53 on that is not whole, which no double is either.
    """

    value: float | int | Decimal | str | bool | None


@dataclass(frozen=True)
class FieldValue:
    """The value of an event's field; `is_quoted` for a name in double quotes, perhaps a text."""

    path: FieldPath
    is_quoted: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Call:
    """An operator over its operands. `case` has conditions and values in turn, and the one for all
    others last; `substring` the first character, from 1, and how many; `like` a pattern in which
    '%' stands for any text, '_' for any character, and what escapes both, or NULL; `cast` and
    `try_cast`, which is NULL where `cast` is an error, the name of a type; `ago` a figure, and how
    long before.
    """

    operator: str
    operands: tuple["Node", ...]


Node = Literal | FieldValue | Call

# Operators that are written between their operands, the ones that bind least first.
INFIX = (
    ("or",),
    ("and",),
    ("=", "<>", "<", "<=", ">", ">="),
    ("||",),
    ("+", "-"),
    ("*", "/", "%"),
)
COMPARISONS = frozenset(INFIX[2])
ARITHMETIC = frozenset((*INFIX[4], *INFIX[5]))
FUNCTIONS = frozenset(("coalesce", "lower", "upper", "substring", "ago"))
# Words of SQL that are no names of fields unless in quotes.
_RESERVED_WORDS = """
all alter and any array as between call case connect_by_root create cross current_catalog
current_date current_time current_timestamp current_user describe distinct drop else end escape
except execute explain false fetch for from glob grant having if ilike in inner insert intersect
interval into is join lateral like list localtime localtimestamp map not notnull null nullable
object on optimize or outer partitioned_by prepare qualify range regexp rename returning revoke
rlike rollback select session_user show straight_join struct table tablesample then true uncache
union using vacuum when where with xor
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
# Whole numbers below it are exact in conditions and in what is computed: each is a double and a
# rest that is a double, too.
WHOLE_BITS = 100
WHOLE_LIMIT = 2**WHOLE_BITS
CASTS = frozenset(("cast", "try_cast"))
CAST_TYPES = {
    "double": Sort.NUMBER,
    "bigint": Sort.NUMBER,
    "varchar": Sort.TEXT,
    "timestamp": Sort.NUMBER,
}
TESTS = ("is null", "is true", "is false")


def fields_of(node: Node) -> Iterator[FieldPath]:
    """Yield the paths that an expression reads, in their order in it, repeated ones too."""
    return (path for path, _ in reads_of(node))


def reads_of(node: Node) -> Iterator[tuple[FieldPath, Node | None]]:
    """Yield the paths as `fields_of`, each with how long ago it is read; None for now."""
    match node:
        case FieldValue(path):
            yield path, None
        case Call("ago", (FieldValue(path), ago)):
            yield path, ago
        case Call(_, operands):
            for operand in operands:
                yield from reads_of(operand)


def calls_of(node: Node, operator: str) -> Iterator[Call]:
    """Yield the calls of an operator in an expression, repeated ones too."""
    if isinstance(node, Call):
        if node.operator == operator:
            yield node
        for operand in node.operands:
            yield from calls_of(operand, operator)


def text_of(node: Node) -> str:
    """Return the expression as SQL, with parentheses around all that could be read in two ways."""
    match node:
        case Literal(value):
            return _literal(value)
        case FieldValue(path):
            return ".".join(map(name_text, path))
        case Call("case", operands):
            *branches, otherwise = map(text_of, operands)
            pairs = zip(branches[::2], branches[1::2], strict=True)
            when = " ".join(f"when {condition} then {value}" for condition, value in pairs)
            return f"case {when} else {otherwise} end"
        case Call("in", (value, *listed)):
            return f"{_inner(value)} in ({', '.join(map(text_of, listed))})"
        case Call("like", (value, pattern, escape)):
            escaped = "" if escape == Literal(None) else f" escape {text_of(escape)}"
            return f"{_inner(value)} like {_inner(pattern)}{escaped}"
        case Call(operator, (value, Literal(kind))) if operator in CASTS:
            return f"{operator}({text_of(value)} as {kind})"
        case Call("not" as operator, (value,)):
            return f"{operator} {_inner(value)}"
        case Call("negate", (value,)):
            return f"-{_inner(value)}"
        case Call(operator, (value,)) if operator in TESTS:
            return f"{_inner(value)} {operator}"
        case Call(operator, operands) if operator in FUNCTIONS:
            return f"{operator}({', '.join(map(text_of, operands))})"
        case Call(operator, operands):
            return f" {operator} ".join(map(_inner, operands))


def _inner(node: Node) -> str:
    text = text_of(node)
    plain = not isinstance(node, Call) or node.operator in FUNCTIONS | CASTS
    return text if plain and not text.startswith("-") else f"({text})"


def _literal(value: float | int | Decimal | str | bool | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return digits_of(value)
    is_whole = value.is_integer() and (abs(value) < 2**53 or Decimal(repr(value)) != Decimal(value))
    # A double's shortest text may be that of another whole number, and those are compared exactly.
    return str(int(value)) if is_whole and abs(value) <= WHOLE_LIMIT else repr(value)


def digits_of(number: Decimal) -> str:
    """Return the digits of a number that is not whole, the same of equal ones."""
    return f"{number:f}".rstrip("0")


def name_text(name: str) -> str:
    """Return a name as SQL has it, in quotes where it needs them."""
    is_plain = name.isascii() and name.isidentifier() and name.lower() not in _RESERVED
    return name if is_plain else f'"{name}"'
