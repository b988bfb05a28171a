"""The git hooks: the locked programs, and they do stop a bad commit."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / ".pre-commit-config.yaml"
CLEAN = '"""A module."""\n'


def hooks() -> list[dict[str, str]]:
    (repo,) = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["repos"]
    assert repo["repo"] == "local"
    return repo["hooks"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with the project's hooks and settings and one clean module."""
    for name in (CONFIG.name, "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    (tmp_path / "module.py").write_text(CLEAN, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def run_hook(repository: Path, name: str) -> subprocess.CompletedProcess[str]:
    subprocess.run(["git", "add", ":/*.py", ":/*.yaml", ":/*.toml"], cwd=repository, check=True)
    command = [".venv/bin/pre-commit", "run", name, "--all-files"]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)


def test_every_hook_is_a_program_of_the_locked_environment() -> None:
    """Nothing is fetched, and no program that happens to be on PATH is run."""
    for hook in hooks():
        program = hook["entry"].split()[0]
        assert hook["language"] == "system"
        assert program.startswith(".venv/bin/")
        assert (ROOT / program).is_file(), f"{program} is not installed: run make setup"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ruff-check", "import os\n"),
        ("ruff-format", "x = {  }\n"),
        ("trailing-whitespace", "# padded   \n"),
        ("end-of-file", "# one empty line too many\n\n"),
        ("merge-conflict", "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> other\n"),
    ],
)
def test_hook_refuses_its_error_and_lets_clean_code_pass(
    repository: Path, name: str, error: str
) -> None:
    """The hook passes a clean module and fails once the error is in it."""
    if name == "merge-conflict":  # it looks only while a merge is under way
        (repository / ".git" / "MERGE_MSG").write_text("merge\n", encoding="utf-8")
        (repository / ".git" / "MERGE_HEAD").write_text("0" * 40 + "\n", encoding="utf-8")
    clean = run_hook(repository, name)
    assert clean.returncode == 0, clean.stdout + clean.stderr
    (repository / "module.py").write_text(CLEAN + error, encoding="utf-8")
    refused = run_hook(repository, name)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "Failed" in refused.stdout
