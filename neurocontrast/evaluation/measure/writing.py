"""Write the folder of an evaluation."""

from __future__ import annotations

from pathlib import Path

import yaml

from neurocontrast.documents.environment import Environment
from neurocontrast.documents.result import FILE
from neurocontrast.evaluation.fit.stored_probe import FOLDER, save_probe
from neurocontrast.evaluation.measure.results import MeasuredPlan
from neurocontrast.files import atomic_folder, write_json, write_table, write_text
from neurocontrast.provenance import describe_environment


def write_evaluation(result: MeasuredPlan, folder: Path) -> None:
    """Write ``evaluation.json``, tables, settings and probe into a new folder, all or none."""
    environment = Environment.model_validate(describe_environment())
    evaluation = result.evaluation.model_copy(update={"environment": environment})
    with atomic_folder(folder) as new:
        for name, table in result.tables.items():
            write_table(new / f"{name}.tsv", table)
        if result.probe is not None:
            save_probe(new / FOLDER, result.probe)
        choices = yaml.safe_dump(dict(result.choices), sort_keys=False, allow_unicode=True)
        write_text(new / "config.yaml", choices)
        write_json(new / FILE, evaluation.content())
