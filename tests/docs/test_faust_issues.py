"""What Faust's users met: each issue that documents list has the tests that they name."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| \[(\d+)\]\(https://github\.com/faust-streaming/faust/issues/\1\) \|.*$", re.M
)


def docstrings() -> dict[str, str]:
    """Those of the tests with a broker, by the test's name."""
    trees = (ast.parse(file.read_text("utf-8")) for file in (ROOT / "tests/broker").rglob("*.py"))
    return {
        node.name: ast.get_docstring(node) or ""
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def test_each_issue_has_its_tests() -> None:
    """The tests that a row names say of which issue they are, and no others do."""
    written = docstrings()
    rows = {row[1]: row[0] for row in ROW.finditer((ROOT / "docs/compare.md").read_text("utf-8"))}
    assert set(rows) == {"333", "158", "176", "597", "651", "92"}
    for issue, row in rows.items():
        said = {
            name
            for name, claim in written.items()
            if f"faust-streaming/faust {issue})" in " ".join(claim.split())
        }
        assert said == set(re.findall(r"`(test_\w+)`", row)), issue
