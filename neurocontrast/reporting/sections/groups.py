"""Section of the result by sex and age."""

from neurocontrast.evaluation.measure.groups import measure_groups
from neurocontrast.reporting.blocks import Section
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.sections.sites import table_parts
from neurocontrast.reporting.texts import section


def show_groups(files: EvaluationFolder) -> Section | None:
    """Return the section with metrics by sex and by age band; None without ``groups.tsv``."""
    groups = files.table("groups", "group_by", "group", "n", text=("group_by", "group"))
    if groups is None:
        return None
    tables = [
        table_parts(
            files,
            rows.reset_index(drop=True),
            "group",
            f"by {name}",
            classes=files.classes,
            file="groups.tsv",
        )
        for name, rows in groups.groupby("group_by", sort=False)
    ]
    return section("groups", tables)


GROUPS = Finding("groups", show_groups, measure_groups, of=("scans",))
