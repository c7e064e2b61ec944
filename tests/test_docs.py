"""Pages that quote the package say what it says."""

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import neurocontrast
from neurocontrast.cli.app import app
from neurocontrast.config import load_config
from neurocontrast.config.recipes import list_recipes

ROOT = Path(neurocontrast.__file__).parents[1]


def quoted_messages() -> list[str]:
    """What stands as code in the first column of the tables of messages."""
    rows = (ROOT / "docs" / "troubleshooting.md").read_text().splitlines()
    return [
        quote
        for row in rows
        if row.startswith("| `")
        for quote in re.findall("`([^`]+)`", row.split("|")[1])
    ]


def test_every_message_in_troubleshooting_is_one_of_the_package():
    paths = [
        path for ending in ("py", "yaml") for path in (ROOT / "neurocontrast").rglob(f"*.{ending}")
    ]
    source = "\n".join(path.read_text() for path in paths)
    joined = re.sub(r"\s+", " ", re.sub(r'"\s*\n\s*f?"', "", source))
    quotes = quoted_messages()
    assert len(quotes) > 20
    assert not [quote for quote in quotes if quote not in joined]


PAGES_OF_SETTINGS = (
    "choosing",
    "data",
    "scans",
    "training",
    "several_encoders",
    "several_processes",
)


@pytest.mark.parametrize("page", PAGES_OF_SETTINGS)
def test_settings_that_pages_quote_are_settings(page):
    quoted = re.findall(r"`([a-z]+\.[a-z_]+): ([^`]+)`", (ROOT / "docs" / f"{page}.md").read_text())
    assert len(quoted) > 2
    for key, value in quoted:
        load_config(None, [f"{key}={value}"])


@pytest.mark.parametrize("page", ["coming_from", "theory"])
def test_losses_that_pages_name_exist(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    from neurocontrast import kernels, losses

    names = set(re.findall(r"`(?:losses\.)?([A-Z][A-Za-z]+)(?:\(|`)", text))
    assert len(names) > 5
    known = {
        *losses.__all__,
        *kernels.__all__,
        "Trainer",
        "TwoViews",
        "SupConLoss",
        "MemoryBankModule",
        "NTXentLoss",
    }
    known |= {
        "YAwareContrastiveLearning",
        "GeneralizedSupervisedNTXenLoss",
        "LightningModule",
        "DCLLoss",
    }
    known |= {"TripletMarginLoss"}
    assert names <= known, names - known


CLI = typer.main.get_command(app)
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("sample/*/*.md"),
                *ROOT.glob("neurocontrast/weights/*/*.md"), *ROOT.glob("weights/*/*/*.md")}
               - {ROOT / "CHANGELOG.md"})  # fmt: skip


def shell_lines(text: str) -> Iterator[list[str]]:
    """Words after `neurocontrast` of each line of the blocks of shell, whatever program starts it."""
    for language, block in re.findall(r"^```(.*)\n([^`]*)^```", text, flags=re.MULTILINE):
        lines = block.replace("\\\n", " ").splitlines() if language in ("", "sh", "bash") else []
        for line in lines:
            called = re.search(r"(?:^|[ (])neurocontrast ([a-z].*?)(?:\)$|$)", line)
            if called:
                yield shlex.split(called[1], comments=True)


def quoted_calls(text: str) -> Iterator[list[str]]:
    """Words after `neurocontrast` of each command that a sentence quotes."""
    sentences = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return (call.split() for call in re.findall(r"`neurocontrast ([a-z][^`]*)`", sentences))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_pages_are_those_of_the_command_line(page):
    text = page.read_text(encoding="utf-8")
    for words in shell_lines(text):
        context = CLI.make_context("neurocontrast", list(words))
        while hasattr(context.command, "commands"):
            name, command, rest = context.command.resolve_command(
                context, [*context._protected_args, *context.args]
            )
            context = command.make_context(name, rest, parent=context)
        recipe = str(context.params.get("config"))
        load_config(
            recipe if recipe in list_recipes() else None, context.params.get("overrides") or ()
        )
    for words in quoted_calls(text):
        command = CLI
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {name for each in command.params for name in [*each.opts, *each.secondary_opts]}
        assert {word for word in words if word.startswith("-")} <= options, words


def test_what_contributing_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## One new thing")[2].partition("## Habits")[0]
    named = set(re.findall(r"`([^`\s]+)`", section))
    paths = {name for name in named if "/" in name}
    assert len(paths) > 40
    folders = (ROOT, ROOT / "neurocontrast", ROOT / "tests")
    assert {path for path in paths if not any((folder / path).exists() for folder in folders)} == (
        set()
    )
    dotted = {name for name in named if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+\.[A-Za-z_]+", name)}
    assert len(dotted) > 6
    for name in dotted:
        module, _, attribute = f"neurocontrast.{name}".rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
    names = {name for name in named if re.fullmatch(r"_?[A-Z][A-Za-z_]+|test_\w+", name)}
    files = [path for path in paths if path.endswith(".py")]
    sources = "".join(
        (folder / path).read_text()
        for path in files
        for folder in folders
        if (folder / path).exists()
    )
    assert {name for name in names if name not in sources} == set()


def test_examples_are_in_the_gallery_with_a_title():
    paths = sorted((ROOT / "examples").glob("*.py"))
    assert len(paths) > 10
    for path in paths:
        title, underline = path.read_text().splitlines()[1:3]
        assert path.name.startswith("plot_"), path.name
        assert set(underline) == {"="}, path.name
        assert len(underline) == len(title), path.name
        for heading, dashes in re.findall(
            r"^# %%\n# (.+)\n# (-+)$", path.read_text(), flags=re.MULTILINE
        ):
            assert len(heading) == len(dashes), f"{path.name}: {heading}"
