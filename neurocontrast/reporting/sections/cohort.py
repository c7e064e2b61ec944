"""Section of the cohort: sizes, scans left out and why, and scans by site and class."""

import pandas as pd

from neurocontrast.reporting.blocks import Block, Column, Facts, Section, Table, make_table, note
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.privacy import OLDEST_SHOWN, rough_ages
from neurocontrast.reporting.wording import capitalise


def show_cohort(files: EvaluationFolder) -> Section:
    """Return the section of the cohort: sizes, scans left out with reasons, and scans by site."""
    n = files.summary.n
    counts = {"Scans evaluated": n.scans, "Subjects": n.subjects, "Sites": n.sites}
    facts = [
        (label, "not recorded" if count is None else f"{count:,}")
        for label, count in counts.items()
    ]
    facts += [
        (f"Left out: {_label(reason)}", f"{count:,}")
        for reason, count in n.excluded.items()
        if count
    ]
    blocks: list[Block] = [Facts(facts)]
    steps = list_steps(files)
    cohort = files.table("cohort", "site")
    absent = note(
        "flow.tsv is absent: what happened before the embeddings were made is not known here."
    )
    blocks.append(absent if steps is None else flow_table(files, steps))
    absent = note("cohort.tsv is absent: no counts by site can be shown.")
    blocks.append(absent if cohort is None else _site_table(files, cohort))
    return Section("cohort", "Cohort", blocks)


def list_steps(files: EvaluationFolder) -> pd.DataFrame | None:
    """Tabulate the steps by which the evaluated scans were selected; None without ``flow.tsv``.

    Columns: ``step``, ``n_scans``, ``n_subjects``, ``reason``, and ``left_out``, which is True for
    steps at which scans left.
    """
    flow = files.table("flow", "step", "n_scans")
    if flow is None:
        return None
    table = flow.reindex(columns=["step", "n_scans", "n_subjects", "reason"]).fillna(
        {"step": "", "reason": ""}
    )
    leaves = table["step"].str.contains("exclu|left out", case=False)
    named = table["step"].map(_label) + ": " + table["reason"]
    left = "Left out: " + table["reason"].where(table["reason"] != "", table["step"]).map(_label)
    return table.assign(step=left.where(leaves, named.str.removesuffix(": ")), left_out=leaves)


def _label(name: str) -> str:
    return capitalise(name.replace("_", " ").strip())


def flow_table(files: EvaluationFolder, steps: pd.DataFrame) -> Table:
    """Return the report's table of the steps by which the evaluated scans were selected.

    `steps` has a row for each step, with numbers of scans and subjects; see `list_steps`.
    """
    items = files.words.items
    columns = (
        Column("Step", "step", "heading"),
        Column(capitalise(items), "n_scans", "count"),
        Column("Subjects", "n_subjects", "count", reason="not counted at this step")
        if "n_subjects" in steps
        else None,
    )
    return make_table(f"How the {items} came to be evaluated.", steps, columns)


def _site_table(files: EvaluationFolder, cohort: pd.DataFrame) -> Table:
    """Return the report's table of sites: scans by class or, for a continuous target, the spread.

    `cohort` has a row for each site, with the values to show. The spread is that of the target at
    the site: mean, standard deviation, smallest and largest value.
    """
    site = Column("Site", "site", "heading")
    names = [name for name in cohort.columns if name != "site"]
    if files.kind == "continuous":
        titles = {
            "n": "Scans",
            "n_subjects": "Subjects",
            "mean": f"Mean {files.target}",
            "sd": "SD",
            "min": "Smallest",
            "max": "Largest",
        }
        kinds = {"n": "count", "n_subjects": "count"}
        digits = 1
        few = "fewer than two scans"
        if (
            files.target == "age"
            and not files.show_ids
            and {"mean", "sd", "min", "max"} <= set(names)
        ):
            # Of fewer than five people, mean and spread would tell the age that is not shown.
            n_people = cohort.get("n_subjects", cohort["n"])
            told = (cohort["max"] < OLDEST_SHOWN) | (n_people >= 5)
            cohort = cohort.assign(**{name: cohort[name].where(told) for name in ("mean", "sd")})
            cohort = cohort.assign(**{name: rough_ages(cohort[name]) for name in ("min", "max")})
            kinds = kinds | {"min": "text", "max": "text"}
            digits = 0
            few = f"{few}, or it would tell a high age"
        columns = [
            Column(titles.get(name, name), name, kinds.get(name, "number"), digits, reason=few)
            for name in names
        ]
        caption = f"Scans evaluated at each site, and the spread of {files.target} among them."
        return make_table(caption, cohort, [site, *columns])
    columns = [Column("All scans" if name == "total" else name, name, "count") for name in names]
    total = {"site": "All sites", **cohort[names].sum().to_dict()}
    many = len(cohort) > 1
    rows = [*cohort.to_dict("records"), *([total] if many else [])]
    caption = f"Scans evaluated at each site, by {files.target}."
    return make_table(caption, rows, [site, *columns], total_rows=int(many))


COHORT = Finding("cohort", show_cohort, of=("scans",))
