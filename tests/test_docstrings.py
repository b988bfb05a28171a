"""Docstrings say what a function does, or what a class is; comments are read once."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "app" / "slidestat"

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Documented = ast.Module | ast.ClassDef | _Function
_PROPERTIES = {"property", "cached_property", "functools.cached_property"}

# After these the reader has to find the noun.
_RIDDLES = "As|How|It|None|Of|So|That|Those|What|When|Where|Whether|Which|Who|Whoever|Whose|Why"
# After these there is no verb, or it comes late.
_NO_VERBS = (
    "A|After|All|Also|An|Another|Any|At|Because|Before|Both|By|Each|Either|Else|Every|Everything"
    "|For|From|If|In|Its|Many|More|Most|Much|Neither|No|Not|Nothing|On|One|Only|Same|Some|Such|The"
    "|Their|There|These|They|This|To|Two|Until|Up|While|With|Without"
)
_RIDDLE = re.compile(rf"(?:{_RIDDLES})\b")
_NO_COMMAND = re.compile(rf"(?:{_RIDDLES}|{_NO_VERBS})\b")
# A comment that opens so names its subject last, or not at all.
_RIDDLE_OF_A_COMMENT = re.compile(
    r"# (?:Of|That|Those|What|How|Which|Who|Whoever|Whose|So (?:few|long|many|much|often))\b"
)


def opens_as_a_command(text: str) -> bool:
    """Return whether a docstring may open with a verb in the imperative: Return, not Returns."""
    word = re.match(r"[A-Z][a-z-]+(?=[ .,;]|$)", text)
    if word is None or _NO_COMMAND.match(text):
        return False
    return word[0].endswith("ss") or not word[0].endswith("s")


def is_property(node: _Function) -> bool:
    """Return whether a function is a property: its docstring may open with a noun."""
    return any(ast.unparse(decorator) in _PROPERTIES for decorator in node.decorator_list)


def is_well_opened(node: _Documented, text: str) -> bool:
    """Return whether a docstring opens as one of a function, a class or a property should."""
    if isinstance(node, _Function) and not is_property(node):
        return opens_as_a_command(text)
    if isinstance(node, ast.Module):
        return not text.startswith("What ")
    return _RIDDLE.match(text) is None


def documented(path: Path) -> Iterator[tuple[_Documented, str]]:
    """Yield the documented parts of a module, each with its docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, _Documented) and (text := ast.get_docstring(node)):
            yield node, text


@pytest.mark.parametrize(
    "room", sorted({path.parent for path in SOURCES.rglob("*.py")}), ids=lambda room: room.name
)
def test_functions_open_with_a_verb_and_classes_with_a_noun(room: Path) -> None:
    """A function's first word is a verb in the imperative: what it does is read at once."""
    wrong = [
        f"{path.relative_to(SOURCES)}:{node.body[0].lineno}: {text.splitlines()[0]}"
        for path in sorted(room.glob("*.py"))
        for node, text in documented(path)
        if not is_well_opened(node, text)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("Return the rows.", True),
        ("Process one record.", True),
        ("Re-read the log.", True),
        ("Returns the rows.", False),
        ("The rows.", False),
        ("Whether it runs.", False),
        ("float64[n]: the rows.", False),
        ("Of all rows, the last.", False),
    ],
)
def test_a_command_is_no_riddle(text: str, *, is_right: bool) -> None:
    assert opens_as_a_command(text) is is_right


def opening_comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each comment of a module that does not go on from the line before, with its line."""
    before = 0, 0
    with tokenize.open(path) as lines:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                if before != (line - 1, column):
                    yield line, token.string
                before = line, column


def test_comments_begin_with_what_they_are_about() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)}:{line}: {text}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, text in opening_comments(path)
        if _RIDDLE_OF_A_COMMENT.match(text)
    ]
    assert wrong == []


def test_a_riddle_is_found_at_the_opening_of_a_comment(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "# The size\n# Of a page.\na = 1  # So many.\n\n# Of a key.\n", encoding="utf-8"
    )
    found = [text for _, text in opening_comments(file) if _RIDDLE_OF_A_COMMENT.match(text)]
    assert found == ["# So many.", "# Of a key."]
