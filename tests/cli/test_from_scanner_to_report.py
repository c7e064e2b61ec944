"""The commands of docs/from_scanner_to_report.md as written, on a small BIDS tree of whole heads."""

import re
import shlex

from neurocontrast.cli import run
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "from_scanner_to_report.md"


def test_the_page_goes_from_index_to_report_by_commands_that_are_understood(capsys):
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]
    way = ["index", "prepare", "check", "pretrain", "embed", "evaluate", "report"]
    assert [name for program, name, *_ in lines if program == "neurocontrast" and name in way] == way
    assert [run([*words[1:], "--help"]) for words in lines] == [0] * len(lines)  # options and arguments are known
    assert "Usage" in capsys.readouterr().out
