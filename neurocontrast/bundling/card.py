"""The model card of a bundle: ``docs/README.md``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neurocontrast.bundling.configs import INTENDED_USE, Samples
from neurocontrast.evaluation import FittedProbe
from neurocontrast.evaluation.schema import Evaluation

__all__ = ["model_card"]

_USE = """## How to run it

Needs Python with torch, monai, nibabel, scipy, pyyaml and fire; neurocontrast is not needed. In this folder:

```
python -m monai.bundle run --config_file configs/inference.yaml --dataset_dir PLACE --output predictions.jsonl
```

From another folder, also give `--bundle_root` and the whole path of the configuration.
{use}, `features`, {keys}`warnings` and `error`; a bad one stops no other, and the exit code is then 1.
"""
_LIMITS = """## Limits

- Features and predictions of scans unlike the training scans ({unlike}) may be
  wrong without looking so.{outside}
- What an encoder keeps of the site, a probe may use. Compare with age, sex and site alone, site by site.
- A bundle brings code, and its configuration is run as code: take one only from people you trust.
- Biases between groups have been measured only where the evaluation says so.
"""


def model_card(
    contract: Mapping[str, Any],
    provenance: Mapping[str, Any],
    samples: Samples,
    *,
    probe: FittedProbe | None,
    evaluation: Evaluation | None,
) -> str:
    """Return a model card in Markdown.

    Parameters
    ----------
    contract, provenance : mapping
        Contents of ``encoder.json`` and ``provenance.json``; the second may be empty.
    samples : Samples
        What the encoder is given.
    probe, evaluation : FittedProbe, Evaluation, or None
        What predicts from features, and how well it did.
    """
    keys = "" if probe is None else "`y_score`, `y_pred`, "
    outside = ""
    if probe is not None and probe.distribution is not None:
        keys += "`mahalanobis_percentile`, `outside`, "
        outside = (
            "\n- `outside` says that a scan lies further from the probe's training scans than nearly all of these do "
            "(Mahalanobis\n  distance to the nearest training site). Outside does not mean wrong, nor inside right."
        )
    simulated = "\n**Trained on simulated brains: for tests of software, not for people.**\n"
    is_simulated = contract.get("simulated") or (evaluation is not None and evaluation.simulated)
    parts = [
        f"# {contract['encoder']['name']}, an encoder of {samples.what}",
        f"A frozen encoder with {contract['n_features']} features, pretrained by neurocontrast "
        f"{contract['neurocontrast']}; SHA-256 of its weights {contract['weights']['sha256'][:16]}….",
        *([simulated] if is_simulated else []),
        f"**Intended use.** {INTENDED_USE}",
        _pretraining(contract, provenance),
        *([] if probe is None else [_evaluated(probe, evaluation)]),
        _USE.format(use=samples.use, keys=keys),
        samples.prepared,
        _LIMITS.format(outside=outside, unlike=samples.unlike),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _pretraining(contract: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    cohort = provenance.get("cohort", {})
    lines = ["## Pretraining", ""]
    if cohort:
        lines.append(
            f"- Data: {cohort.get('source')}: {cohort.get('n_scans')} scans of {cohort.get('n_subjects')} people."
        )
    lines += [f"- {line}" for line in _people(cohort.get("people"))]
    objective = contract.get("objective")
    if isinstance(objective, Mapping) and objective.get("title"):
        lines.append(f"- Objective: {objective['title']}.")
    return "\n".join(lines)


def _people(people: Mapping[str, Any] | None) -> list[str]:
    if not people:
        return ["Ages, sexes and sites of these people were not recorded."]
    found = []
    if people.get("age_years"):
        low, median, high = people["age_years"]
        found.append(f"Ages: {low:g} to {high:g} years, median {median:g}.")
    for name in ("sex", "sites"):
        if people.get(name):
            found.append(f"{name.capitalize()}: {', '.join(f'{each} {n}' for each, n in people[name].items())}.")
    return found


def _evaluated(probe: FittedProbe, evaluation: Evaluation | None) -> str:
    what = {"continuous": "a number", "binary": f"{probe.classes[-1]} or not" if probe.classes else "two classes"}
    lines = [
        f"## Probe of {probe.target}",
        "",
        f"- Predicts {what.get(probe.kind, ', '.join(probe.classes))}, by a probe ({probe.name}) on the features, "
        f"fitted on {probe.n_scans} scans of {len(probe.trained_on)} people.",
    ]
    if probe.distribution is not None:
        lines.append(f"- Sites of these people: {', '.join(probe.distribution.sites)}.")
    if evaluation is None:
        return "\n".join([*lines, "- Only the probe was bundled: its evaluation was not at hand."])
    for name, metric in evaluation.metrics.items():
        value = metric.mean if metric.pooled is None else metric.pooled
        interval = metric.interval
        if value is not None:
            bounds = "" if not interval else f" [{interval[0]:.3g}, {interval[1]:.3g}]"
            lines.append(f"- {name}: {value:.3g}{bounds}, cross-validated ({evaluation.splits}).")
    if evaluation.n_overlap:
        lines.append(f"- {evaluation.n_overlap} of these people were in pretraining too.")
    return "\n".join(lines + [f"- Warning: {each.message}" for each in evaluation.warnings])
