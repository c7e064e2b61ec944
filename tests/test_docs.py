"""Pages that quote the package say what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import neurocontrast

ROOT = Path(neurocontrast.__file__).parents[1]


def quoted_messages() -> list[str]:
    """What stands as code in the first column of the tables of messages."""
    rows = (ROOT / "docs" / "troubleshooting.md").read_text().splitlines()
    return [quote for row in rows if row.startswith("| `") for quote in re.findall("`([^`]+)`", row.split("|")[1])]


def test_every_message_in_troubleshooting_is_one_of_the_package():
    source = "\n".join(path.read_text() for path in (ROOT / "neurocontrast").rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", source)
    quotes = quoted_messages()
    assert len(quotes) > 20
    assert not [quote for quote in quotes if quote not in joined]


@pytest.mark.parametrize("page", ["choosing", "coming_from", "theory"])
def test_losses_and_keys_that_pages_name_exist(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    from neurocontrast import kernels, losses

    names = set(re.findall(r"`(?:losses\.)?([A-Z][A-Za-z]+)(?:\(|`)", text))
    known = {*losses.__all__, *kernels.__all__, "Trainer", "TwoViews", "SupConLoss", "MemoryBankModule", "NTXentLoss"}
    known |= {"YAwareContrastiveLearning", "GeneralizedSupervisedNTXenLoss", "LightningModule", "DCLLoss"}
    known |= {"TripletMarginLoss"}
    assert names <= known, names - known


def test_examples_are_in_the_gallery_with_a_title():
    for path in sorted((ROOT / "examples").glob("*.py")):
        title, underline = path.read_text().splitlines()[1:3]
        assert path.name.startswith("plot_"), path.name
        assert set(underline) == {"="}, path.name
        assert len(underline) == len(title), path.name
        for heading, dashes in re.findall(r"^# %%\n# (.+)\n# (-+)$", path.read_text(), flags=re.MULTILINE):
            assert len(heading) == len(dashes), f"{path.name}: {heading}"
