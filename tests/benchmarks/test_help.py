"""Every benchmark prints its help when it is asked to, and then runs nothing."""

import runpy
import sys
from pathlib import Path

import pytest

import benchmarks

FOLDER = Path(benchmarks.__file__).parent
# Their libraries are in environments of their own.
ELSEWHERE = {
    "bytewax_flow", "chdb_tiles", "clink_hop", "ddsketch_quantiles",
    "draw_pictures", "draw_plots", "pathway_flow", "quix",
}  # fmt: skip
PROGRAMS = {
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__main__"): text
    for path in sorted(FOLDER.rglob("*.py"))
    if 'if __name__ == "__main__":\n' in (text := path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("name", [it for it in PROGRAMS if it.split(".")[-1] not in ELSEWHERE])
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_help_is_printed_and_nothing_is_run(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first line names it, or how it is called."""
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out.lower()


def test_programs_of_other_environments_look_at_what_is_typed_first() -> None:
    """They are not run here: what they import first is not installed."""
    for name, text in PROGRAMS.items():
        if name.split(".")[-1] in ELSEWHERE:
            first = text.split('if __name__ == "__main__":\n')[1].split("\n", 1)[0]
            assert "typed(" in first, name
