"""The arrays with the fields that kernels look for, and with what they find."""

from typing import NamedTuple

from slidestat.synopses.core.arrays import Bools, Bytes, Integers

# Sorts of values; bits, so that a field may take several. A field that is not there has nothing, as
# one that is null.
NOTHING, TEXT, WHOLE, DECIMAL, FALSE, TRUE = (1 << i for i in range(6))
# Bits of an int64: so many fields and objects are looked for at most.
MOST_FIELDS = 62
DEEPEST_FIELD = 16

# Columns of a plan's fields.
NAME_START, NAME_END, OUTER, INNER, TAKES = range(5)


class Plan(NamedTuple):
    """The names to look for: `fields` int64[f, 5], including objects on the way to others, with
    those of one object side by side; the fields of the i-th object are `firsts`[i] up to firsts[i +
    1], and the 0-th is the record.

    A field's columns are where its name lies in `names`, the object that it lies in, which object
    it is, -1 if none, and the sorts of values that it takes. `required` int64[1] has a bit for each
    that must be there. `followers` int64[f + objects] is memory of the kernel: which field came
    last after each, and first in each object; `path` int64[16] has room for the objects around.
    """

    names: Bytes
    fields: Integers
    firsts: Integers
    required: Integers
    followers: Integers
    path: Integers


class Found(NamedTuple):
    """The fields found in n records: `is_plain` bool[n]; of plain records, for each field the sort
    of its value, `sorts` uint8[f, n], 0 if it is missing, and its span `starts` up to `ends`
    int64[f, n], of a text without its quotes.
    """

    is_plain: Bools
    sorts: Bytes
    starts: Integers
    ends: Integers
