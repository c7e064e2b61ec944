"""Tables and figures of `regions.py`, from its journals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from regions_data import Journal, choosing_sites, deal_sites, make_fold
from regions_scores import SHOTS, Judged, collect, difference, scores, within_auc

__all__ = ["report"]

matplotlib.use("svg")
from matplotlib import pyplot as plt

from neurocontrast.page.style import look_of

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MAIN, MEASURES = "conditional A+U", "measures"
ORDER = (
    MAIN,
    "y-Aware",
    "L^exp",
    "Rank-N-Contrast",
    "NT-Xent",
    "SupCon",
    "supervised",
    "untrained",
    "PCA",
)
ROWS = (
    *(f"{name}{kind}" for name in ORDER for kind in ("", ", joined")),
    MEASURES,
    "Gaussian process",
    "ComBat",
)
COLUMNS = {"age": ".2f", "sites": ".2f", "bias": ".2f", "spread": ".2f", **{f"after {k}": ".2f" for k in SHOTS},
           "sex": ".3f", "sex balanced": ".3f", "home age": ".2f", "home site": ".2f", "OpenBHB": ".2f"}  # fmt: skip
PAIRS = (
    *((MAIN, other) for other in (*ORDER[1:], MEASURES, "Gaussian process")),
    *(
        (first, "NT-Xent")
        for first in ("y-Aware", "L^exp", "Rank-N-Contrast", "SupCon", "supervised")
    ),
    *(
        ("y-Aware", "L^exp"),
        ("y-Aware", "supervised"),
        ("L^exp", "supervised"),
        ("NT-Xent", "untrained"),
    ),
    *((name, MEASURES) for name in (*ORDER[1:8], *(f"{name}, joined" for name in ORDER))),
    (f"{MAIN}, joined", "untrained, joined"),
    (f"{MAIN}, joined", "NT-Xent, joined"),
)


def _folds(study: Any, seeds: set[int]) -> dict[tuple[int, int], Any]:
    return {
        (seed, group): make_fold(study.sites, left_out, seed)
        for seed in seeds
        for group, left_out in enumerate(deal_sites(study.sites, seed))
    }


def _gather(study: Any, cells: list[dict[str, Any]]) -> dict[str, Judged]:
    return collect(cells, _folds(study, {cell["key"]["seed"] for cell in cells}), study.people)


def _interval(found: tuple[float, float, float], form: str = "+.2f") -> str:
    return f"{found[0]:{form}} [{found[1]:{form}}, {found[2]:{form}}]"


def print_table(study: Any, out: Path, best: Callable[[str], dict[str, float]]) -> str:
    judged = _gather(study, Journal(out / "table.jsonl").of_stage("table"))
    chosen = Journal(out / "choose.jsonl").of_stage("choose")
    first = judged[MAIN]
    lines = [
        f"Choosing sites: {', '.join(choosing_sites(study.sites))}; {len(chosen) // 2} trials. "
        f"Judged: {len(first.site)} people of {len(np.unique(first.site))} sites, {len(first.age)} seeds.",
        *(f"{name}: {best(name)}" for name in ORDER if best(name)),
        f"| features | {' | '.join(COLUMNS)} |",
        f"|---|{'---|' * len(COLUMNS)}",
    ]
    for name in [name for name in (*ROWS, "supervised, frozen") if name in judged]:
        found = scores(judged[name])
        lines.append(
            f"| {name} | {' | '.join(f'{found[key]:{form}}' for key, form in COLUMNS.items())} |"
        )
    lines += ["", "| first − second | age | sites | after 10 | sex |", "|---|---|---|---|---|"]
    for one, other in [pair for pair in PAIRS if set(pair) <= set(judged)]:
        forms = {"age": "+.2f", "sites": "+.2f", "after 10": "+.2f", "sex": "+.3f"}
        cells = [
            _interval(difference(judged[one], judged[other], what), form)
            for what, form in forms.items()
        ]
        lines.append(f"| {one} − {other} | {' | '.join(cells)} |")
    return "\n".join(lines)


def print_curves(
    study: Any, out: Path
) -> tuple[str, dict[str, list[tuple[int, dict[str, float]]]]]:
    """Return errors by number of sites and people, as text and for the figure; the last point is the table's."""
    cells = Journal(out / "curves.jsonl").of_stage("curves")
    seeds = {cell["key"]["seed"] for cell in cells}
    names = {cell["key"]["system"] for cell in cells}
    whole = [cell for cell in Journal(out / "table.jsonl").of_stage("table")
             if cell["key"]["seed"] in seeds and cell["key"]["system"] in names]  # fmt: skip
    everybody = _folds(study, seeds)
    last = {"sites": np.mean([len(set(study.sites[fold.learned])) for fold in everybody.values()]),
            "people": np.mean([len(fold.learned) for fold in everybody.values()])}  # fmt: skip
    lines, found = [], {}
    for of in ("sites", "people"):
        points = sorted({cell["key"]["n"] for cell in cells if cell["key"]["of"] == of})
        found[of] = []
        for n in [*points, None]:
            part = (
                whole
                if n is None
                else [c for c in cells if c["key"]["of"] == of and c["key"]["n"] == n]
            )
            judged = _gather(study, part)
            people = last["people"] if n is None else np.mean([c["people"] for c in part])
            place = round(last[of] if n is None else n)
            errors = {name: scores(each)["age"] for name, each in judged.items()}
            found[of].append((place, errors))
            kinds = [MAIN, f"{MAIN}, joined"]
            gains = [_interval(difference(judged[each], judged[MEASURES], "age")) for each in kinds]
            gain = " ".join(
                f"{each} − {MEASURES} {it}" for each, it in zip(kinds, gains, strict=True)
            )
            shown = ", ".join(f"{name} {value:.2f}" for name, value in errors.items())
            lines.append(f"- {place} {of} ({people:.0f} people): {shown}; {gain}")
    return "\n".join(lines), found


def print_weights(study: Any, out: Path) -> tuple[str, dict[float, dict[str, float]]]:
    """Return scores by λ."""
    cells = Journal(out / "weights.jsonl").of_stage("weights")
    found, lines, judged = {}, [], {}
    for weight in sorted({cell["key"]["weight"] for cell in cells}):
        part = [
            {**cell, "key": {**cell["key"], "system": MAIN}}
            for cell in cells
            if cell["key"]["weight"] == weight
        ]
        judged[weight] = _gather(study, part)[MAIN]
        found[weight] = scores(judged[weight])
    for weight, values in found.items():
        against = _interval(difference(judged[weight], judged[1.0], "age"))
        lines.append(f"- λ = {weight:g}: age {values['age']:.2f} (− λ = 1: {against}), sex {values['sex']:.3f}, "
                     f"site {values['home site']:.2f}, OpenBHB {values['OpenBHB']:.2f}")  # fmt: skip
    return "\n".join(lines), found


def _with_limits(bootstrapped: npt.NDArray[Any]) -> tuple[float, float, float]:
    return float(bootstrapped[0]), *map(float, np.nanquantile(bootstrapped[1:], [0.025, 0.975]))


def print_autism(
    everyone: Any, out: Path
) -> tuple[str, dict[str, dict[str, list[tuple[int, npt.NDArray[Any]]]]]]:
    """Return the AUC of autism among people of the same site, by design, system and number of labelled people."""
    people = everyone.people
    table = people[(people["source"] == "abide1") & people["diagnosis"].isin(["autism", "control"])]
    sick, site = (table["diagnosis"] == "autism").to_numpy(int), table["site"].to_numpy(str)
    parts: dict[tuple[str, int, str], list[Any]] = {}
    for draw in Journal(out / "autism.jsonl").of_stage("autism"):
        for cell in draw["cells"]:
            judged = np.array(cell["judged"])
            for name, score in cell["scores"].items():
                parts.setdefault((cell["design"], cell["n"], name), []).append(
                    (np.array(score), sick[judged], site[judged])
                )
    lines, found = [], {}
    n_draws = max(
        map(len, parts.values())
    )  # large numbers of labelled people are not left in every draw of sites
    for (design, n, name), cells in (
        (key, cells) for key, cells in parts.items() if len(cells) == n_draws
    ):
        aucs = within_auc(cells, sorted(set(site)))
        found.setdefault(design, {}).setdefault(name, []).append((n, aucs))
    for design, systems in found.items():
        for name, points in ((name, points) for name, points in systems.items() if "λ" not in name):
            shown = ", ".join(f"{n}: {_interval(_with_limits(auc), '.3f')}" for n, auc in points)
            gains = [(n, _with_limits(auc - dict(systems[MEASURES])[n])) for n, auc in points]
            beside = ", ".join(f"{n}: {_interval(gain, '+.3f')}" for n, gain in gains)
            lines.append(f"- {design}, {name}: {shown}; − {MEASURES} {beside}")
    return "\n".join(lines), found


def _save(figure: Any, name: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    with plt.rc_context({"svg.hashsalt": "regions", "svg.fonttype": "none"}):
        figure.savefig(IMAGES / name, metadata={"Date": None})
    plt.close(figure)


def draw_curves(found: dict[str, list[tuple[int, dict[str, float]]]]) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    names = [MAIN, f"{MAIN}, joined", "y-Aware", "NT-Xent", "supervised", "untrained", MEASURES]
    for axis, of in zip(axes, ("sites", "people"), strict=True):
        for place, name in enumerate(names):
            points = [(n, errors[name]) for n, errors in found[of]]
            look = {
                "color": f"C{place}",
                "marker": look_of(place)["marker"],
                "ls": "-" if place < 5 else "--",
            }
            axis.plot(*zip(*points, strict=True), ms=4, label=name, **look)
        axis.set(xscale="log", xlabel=f"{of} to learn from")
        axis.set_xticks([n for n, _ in found[of]], [f"{n:,}" for n, _ in found[of]], minor=False)
        axis.set_xticks([], minor=True)
        axis.grid(alpha=0.3)
    axes[0].set(ylabel="error of age at sites never seen, years", title="all people of some sites")
    axes[1].set(title="some people of all sites")
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside right center", fontsize="small"
    )
    _save(figure, "regions_curves.svg")


def draw_figure_3(weights: dict[float, dict[str, float]], autism: dict[str, Any]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    places = range(len(weights))
    other = axes[0].twinx()
    axes[0].plot(
        places, [each["age"] for each in weights.values()], "o-", color="C0", label="age, years"
    )
    other.plot(
        places, [each["sex"] for each in weights.values()], "s--", color="C1", label="sex, AUC"
    )
    other.plot(
        places,
        [each["home site"] for each in weights.values()],
        "^:",
        color="C2",
        label="site, balanced accuracy",
    )
    axes[0].set_xticks(places, [f"{weight:g}" for weight in weights])
    axes[0].set(
        xlabel="λ, weight of conditional uniformity",
        ylabel="error of age, years",
        title="sites never seen",
    )
    other.set(ylabel="AUC of sex, balanced accuracy of site")
    lines = [*axes[0].get_lines(), *other.get_lines()]
    for axis in (axes[0], other):  # room for the legend
        low, high = axis.get_ylim()
        axis.set_ylim(low, high + 0.3 * (high - low))
    axes[0].legend(
        lines, [line.get_label() for line in lines], fontsize="x-small", loc="upper center"
    )
    names = [
        MAIN,
        f"{MAIN}, joined",
        f"{MAIN}, tuned",
        "y-Aware",
        "NT-Xent",
        "untrained",
        MEASURES,
        "age and sex",
    ]
    for axis, (design, systems) in zip(axes[1:], autism.items(), strict=True):
        for place, name in enumerate(names):
            points = [(n, auc[0]) for n, auc in systems[name]]
            look = {
                "color": f"C{place}",
                "marker": look_of(place)["marker"],
                "ls": "-" if place < 5 else "--",
            }
            axis.plot(*zip(*points, strict=True), ms=4, label=name, **look)
        band = systems[MEASURES]
        low, high = (
            np.array([np.nanquantile(auc[1:], q) for _, auc in band]) for q in (0.025, 0.975)
        )
        axis.fill_between([n for n, _ in band], low, high, color="C6", alpha=0.12, lw=0)
        axis.set(
            xscale="log", ylim=(0.45, 0.7), title=f"autism, {design}", xlabel="labelled people"
        )
        ticks = [n for n, _ in band if n == band[-1][0] or n < band[-1][0] / 1.5]
        axis.set_xticks(ticks, list(map(str, ticks)), minor=False)
        axis.set_xticks([], minor=True)
        axis.grid(alpha=0.3)
    axes[1].set_ylabel("AUC among people of the same site")
    figure.legend(
        *axes[1].get_legend_handles_labels(), loc="outside right center", fontsize="small"
    )
    _save(figure, "regions_weight_and_autism.svg")


def report(study: Any, everyone: Any, out: Path, best: Callable[[str], dict[str, float]]) -> None:
    """Print what the journals hold, keep it in OUT/report.md, and draw the figures whose stages are there."""
    parts = [print_table(study, out, best)]
    if (out / "curves.jsonl").is_file():
        text, curves = print_curves(study, out)
        parts.append(text)
        draw_curves(curves)
    if (out / "weights.jsonl").is_file() and (out / "autism.jsonl").is_file():
        (of_weights, weights), (of_autism, autism) = (
            print_weights(study, out),
            print_autism(everyone, out),
        )
        parts += [of_weights, of_autism]
        draw_figure_3(weights, autism)
    text = "\n\n".join(parts)
    (out / "report.md").write_text(text + "\n")
    print(text)
