"""Tables and figures of `regions.py`, from its journals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt

from benchmarks.regions.choice import (
    LABELLED,
    MAIN,
    N_MEMBERS,
    RIVALS,
    SEVERAL,
    best_settings,
    costs_of_trials,
)
from benchmarks.regions.data import Journal, choosing_sites, deal_sites, make_fold
from benchmarks.regions.models import LOSSES
from benchmarks.regions.scores import SHOTS, Judged, auc_of_pairs, collect, difference, scores

__all__ = ["report"]

matplotlib.use("svg")
from matplotlib import pyplot as plt

from neurocontrast.reporting.style import look_of

Floats = npt.NDArray[np.floating[Any]]
Points = dict[str, list[tuple[int, dict[str, float]]]]
IMAGES = Path(__file__).parents[2] / "docs" / "images"
MEASURES = "measures"
KINDS = ("", ", beside")
MEMBERS = tuple(f"{name}, {N_MEMBERS} encoders" for name in SEVERAL)
ENCODERS = (*LOSSES, *MEMBERS, "untrained")
JOINED = tuple(f"{name}{kind}, joined" for name in MEMBERS for kind in KINDS)
"""Several encoders and the measures as one more, as `neurocontrast join` makes of their runs."""
NETWORKS = f"MLP, {N_MEMBERS} encoders"
"""As many supervised networks as there are members, averaged."""
ROWS = (*(f"{name}{kind}" for name in ENCODERS for kind in KINDS), *JOINED, *RIVALS, NETWORKS)
"""Titles as `benchmarks.regions.scores.collect` makes them; *beside* is the network with components beside it."""
FORMATS = {
    "age": ".2f",
    "sites": ".2f",
    "bias": ".2f",
    "spread": ".2f",
    **{f"after {shots}": ".2f" for shots in SHOTS},
    "sex": ".3f",
    "sex balanced": ".3f",
    "home age": ".2f",
    "home site": ".2f",
    "OpenBHB": ".2f",
}
DIFFERENCES = {"age": "+.2f", "sites": "+.2f", "after 10": "+.2f", "sex": "+.3f"}
BEST = f"{MEMBERS[0]}, beside"
PAIRS = (
    *((row, MEASURES) for row in ROWS if row != MEASURES),
    *((BEST, rival) for rival in (*RIVALS[1:], NETWORKS)),
    (MAIN, "MLP"),
    *((f"{name}, beside", "untrained, beside") for name in (*LOSSES, *MEMBERS)),
    *((f"{name}, beside", name) for name in ENCODERS),
    *((f"{MAIN}{kind}", f"y-Aware{kind}") for kind in KINDS),
    *((f"{MEMBERS[0]}{kind}", f"{MEMBERS[1]}{kind}") for kind in KINDS),
    *(
        (f"{members}{kind}", f"{name}{kind}")
        for members, name in zip(MEMBERS, SEVERAL, strict=True)
        for kind in KINDS
    ),
    *((name, "NT-Xent") for name in (MAIN, "y-Aware", "SupCon", "untrained")),
)


def _gather(study: Any, cells: list[dict[str, Any]]) -> dict[str, Judged]:
    folds = {}
    for seed in {cell["key"]["seed"] for cell in cells}:
        for group, left_out in enumerate(deal_sites(study.sites, seed)):
            folds[seed, group] = make_fold(study.sites, left_out, seed)
    judged = collect(cells, folds, study.people)
    for title in JOINED:
        several = judged.get(title.removesuffix(", joined"))
        if several is not None:
            judged[title] = _join(several, judged[MEASURES])
    return judged


def _join(several: Judged, one: Judged) -> Judged:
    """Return the mean of the predictions of several encoders and of one more."""
    age = (N_MEMBERS * several.age + one.age) / (N_MEMBERS + 1)
    sex = (N_MEMBERS * several.sex + one.sex) / (N_MEMBERS + 1)
    return several._replace(age=age, sex=sex, home_age=float("nan"), home_site=float("nan"))


def _interval(value: tuple[float, float, float], form: str = "+.2f") -> str:
    return f"{value[0]:{form}} [{value[1]:{form}}, {value[2]:{form}}]"


def _row(title: str, cells: Sequence[str]) -> str:
    return f"| {title} | {' | '.join(cells)} |"


def _head(title: str, names: Sequence[str]) -> list[str]:
    return [_row(title, names), f"|---|{'---|' * len(names)}"]


def print_choice(study: Any, out: Path) -> str:
    """Return the number of trials, the settings chosen, and how much each kind leaves open."""
    chosen = Journal(out / "choose.jsonl")
    titles = set()
    for cell in chosen.of_stage("choose"):
        titles.add(str({key: cell["key"][key] for key in cell["key"] if key != "seed"}))
    lines = [
        f"Choosing sites: {', '.join(choosing_sites(study.sites))}; {len(titles) - 1} trials.",
        "Mean share of what the measures leave open in age, sex and patients (with components; alone):",
    ]
    for name in LOSSES:
        beside = costs_of_trials(name, chosen)
        alone = costs_of_trials(name, chosen, kind="alone")
        for settings in sorted(beside, key=beside.__getitem__)[:4]:
            lines.append(f"- {name}: {settings}: {beside[settings]:.3f}; {alone[settings]:.3f}")
        lines.append(f"- {name}, chosen: {best_settings(name, chosen)}")
    lines.append(f"- MLP, chosen: {best_settings('MLP', chosen)}")
    return "\n".join(lines)


def print_table(study: Any, out: Path) -> str:
    """Return age and sex at sites never seen, and paired differences with intervals over sites."""
    judged = _gather(study, Journal(out / "table.jsonl").of_stage("table"))
    first = judged[MEASURES]
    n_sites = len(np.unique(first.site))
    lines = [
        f"Judged: {len(first.site)} people of {n_sites} sites, {len(first.age)} seeds.",
        "",
        *_head("features", list(FORMATS)),
    ]
    for title in ROWS:
        if title in judged:
            values = scores(judged[title])
            cells = []
            for key, form in FORMATS.items():
                cells.append("" if np.isnan(values[key]) else f"{values[key]:{form}}")
            lines.append(_row(title, cells))
    lines += ["", *_head("first − second", list(DIFFERENCES))]
    for one, other in PAIRS:
        if one in judged and other in judged:
            cells = []
            for key, form in DIFFERENCES.items():
                cells.append(_interval(difference(judged[one], judged[other], key), form))
            lines.append(_row(f"{one} − {other}", cells))
    return "\n".join(lines)


def print_patients(out: Path) -> str:
    """Return the AUC of patients by labelled people, and differences with intervals over hospitals."""
    counts: dict[str, dict[str, Floats]] = {}
    for cell in Journal(out / "patients.jsonl").of_stage("patients"):
        for kind, pairs in cell["pairs"].items():
            title = cell["key"]["system"] + ("" if kind == "alone" else f", {kind}")
            of_system = counts.setdefault(title, {})
            for labelled, values in pairs.items():
                of_system[labelled] = of_system.get(labelled, 0) + np.array(values)
    sizes = [*map(str, LABELLED), "most"]
    aucs = {}
    for title, of_system in counts.items():
        by_size = {size: auc_of_pairs(of_system[size]) for size in sizes}
        by_size["mean"] = np.mean(list(by_size.values()), axis=0)
        aucs[title] = by_size
    columns = [*sizes, "mean"]
    lines = _head("features", [*columns, "mean − measures"])
    for title in ROWS:
        if title not in aucs:
            continue
        cells = [f"{aucs[title][size][0]:.3f}" for size in columns]
        gain = aucs[title]["mean"] - aucs[MEASURES]["mean"]
        low, high = np.nanquantile(gain[1:], [0.025, 0.975])
        lines.append(_row(title, [*cells, _interval((gain[0], low, high), "+.3f")]))
    return "\n".join(lines)


def print_curves(study: Any, out: Path) -> tuple[str, Points]:
    """Return errors by number of sites and people, for the text and the figure; all are the table's."""
    cells = Journal(out / "curves.jsonl").of_stage("curves")
    lines = []
    points: Points = {}
    for unit in ("sites", "people"):
        parts = []
        for n in sorted({cell["key"]["n"] for cell in cells if cell["key"]["of"] == unit}):
            parts.append((n, [c for c in cells if c["key"]["of"] == unit and c["key"]["n"] == n]))
        parts.append(_everybody(study, out, cells, unit))
        points[unit] = []
        for n, part in parts:
            judged = _gather(study, part)
            errors = {title: scores(each)["age"] for title, each in judged.items()}
            points[unit].append((n, errors))
            n_people = np.mean([cell["people"] for cell in part])
            gain = _interval(difference(judged[f"{MAIN}, beside"], judged[MEASURES], "age"))
            text = ", ".join(f"{title} {value:.2f}" for title, value in errors.items())
            lines.append(
                f"- {n} {unit} ({n_people:.0f} people): {text}; {MAIN}, beside − {MEASURES} {gain}"
            )
    return "\n".join(lines), points


def _everybody(
    study: Any, out: Path, cells: list[dict[str, Any]], unit: str
) -> tuple[int, list[dict[str, Any]]]:
    """Return the table's cells of the curves' seeds and systems, and how many they learn from."""
    seeds = {cell["key"]["seed"] for cell in cells}
    titles = {cell["key"]["system"] for cell in cells}
    part = []
    for cell in Journal(out / "table.jsonl").of_stage("table"):
        if cell["key"]["seed"] in seeds and cell["key"]["system"] in titles:
            part.append(cell)
    if unit == "people":
        return round(np.mean([cell["people"] for cell in part])), part
    n_sites = []
    for seed in seeds:
        for left_out in deal_sites(study.sites, seed):
            n_sites.append(study.sites.nunique() - len(left_out))
    return round(np.mean(n_sites)), part


def print_weights(study: Any, out: Path) -> str:
    """Return scores by λ."""
    cells = Journal(out / "weights.jsonl").of_stage("weights")
    judged = {}
    for weight in sorted({cell["key"]["weight"] for cell in cells}):
        part = []
        for cell in cells:
            if cell["key"]["weight"] == weight:
                part.append({**cell, "key": {**cell["key"], "system": MAIN}})
        judged[weight] = _gather(study, part)[MAIN]
    lines = []
    for weight, of_weight in judged.items():
        values = scores(of_weight)
        gap = _interval(difference(of_weight, judged[1.0], "age"))
        lines.append(
            f"- λ = {weight:g}: age {values['age']:.2f} (− λ = 1: {gap}), sex {values['sex']:.3f}, "
            f"site {values['home site']:.2f}, OpenBHB {values['OpenBHB']:.2f}"
        )
    return "\n".join(lines)


def draw_curves(points: Points) -> None:
    """Draw the error of age over the number of sites and of people to learn from."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    titles = [MAIN, f"{MAIN}, beside", "y-Aware, beside", "NT-Xent, beside", "MLP", "untrained", MEASURES]  # fmt: skip
    for axis, unit in zip(axes, ("sites", "people"), strict=True):
        for place, title in enumerate(titles):
            x = [n for n, _ in points[unit]]
            y = [errors[title] for _, errors in points[unit]]
            style = "-" if place < 4 else "--"
            marker = look_of(place)["marker"]
            axis.plot(x, y, ms=4, label=title, color=f"C{place}", marker=marker, ls=style)
        ticks = [n for n, _ in points[unit]]
        axis.set(xscale="log", xlabel=f"{unit} to learn from")
        axis.set_xticks(ticks, [f"{n:,}" for n in ticks], minor=False)
        axis.set_xticks([], minor=True)
        axis.grid(alpha=0.3)
    axes[0].set(ylabel="error of age at sites never seen, years", title="all people of some sites")
    axes[1].set(title="some people of all sites")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize="small")
    IMAGES.mkdir(exist_ok=True)
    with plt.rc_context({"svg.hashsalt": "regions", "svg.fonttype": "none"}):
        figure.savefig(IMAGES / "regions_curves.svg", metadata={"Date": None})
    plt.close(figure)


def report(study: Any, out: Path) -> None:
    """Print what the journals hold, keep it in OUT/report.md, and draw the curves if they are there."""
    parts = [print_choice(study, out)]
    if (out / "table.jsonl").is_file():
        parts.append(print_table(study, out))
    if (out / "patients.jsonl").is_file():
        parts.append(print_patients(out))
    if (out / "weights.jsonl").is_file():
        parts.append(print_weights(study, out))
    if (out / "curves.jsonl").is_file():
        text, points = print_curves(study, out)
        parts.append(text)
        draw_curves(points)
    text = "\n\n".join(parts)
    (out / "report.md").write_text(text + "\n")
    print(text)
