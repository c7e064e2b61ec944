"""Folders of files, and the table that `index` makes of them."""

import json

from neurocontrast import index
from neurocontrast.data import read_cohort


def put(root, path, content="image"):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def rows(text):
    return "\n".join("\t".join(line.split()) for line in text.strip().splitlines()) + "\n"


def made(root, tmp_path, **options):
    """Index a folder; return the rows of the table by participant and session, and the record."""
    found = index(root, tmp_path / "out" / "participants.tsv", **options)
    table = read_cohort(found.path).table
    record = json.loads((found.path.parent / "index.json").read_text())
    by_scan = {(row["participant_id"], row["session"]): row for row in table.to_dict("records")}
    return by_scan, record
