"""What happens at a site that the model has not seen: what a hospital group asks first."""

from __future__ import annotations

from typing import Any

from neurocontrast.reporting import new_sites
from neurocontrast.reporting.blocks import Block, Card, Cards, Items, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.scores import draw_new_sites
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH, chance_level, describe_metric, interval_text, number_text
from neurocontrast.reporting.naming import capitalise, interval_phrase
from neurocontrast.reporting.new_sites import Estimate, estimate
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.prose import write
from neurocontrast.reporting.section import Input, SectionBuilder, missing_note
from neurocontrast.reporting.tables import table_new_sites, table_pooled_sites

__all__ = ["NEW_SITE", "say_new_site", "say_spread"]

_TITLE = "At a site it has not seen"
_SECOND = ("bias", "balanced_accuracy", "brier")
_FEW_SITES = 10
"""With fewer sites left out, their number is said to be too small to speak for another site."""
_INPUT = Input(
    "new_sites.tsv",
    "how the model does at sites that it has not seen",
    "new_sites",
    "Written by `neurocontrast evaluate` of this version where there are two sites or more.",
    needed=True,
)
_QUOTE = """
{% macro beside_constant(key) %}
{% set verdict = judge(key) %}
{% set guess = "the constant guess (" ~ constant(key)["value"]|number(digits=2) ~ ")" if verdict else "" %}
{{ {
  "better": "; that is better than " ~ guess,
  "worse": "; that is worse than " ~ guess ~ ", which never looks at a scan",
  "no better": "; that is no better than " ~ guess,
  "not shown": "; that this is better than " ~ guess ~ " is not shown by these data",
}.get(verdict, "; a constant guess was not compared") }}
{% endmacro %}
At a site that the model has not seen, the {{ "mean absolute error" if key == "mae" else metric(key).name }} of
{{ files.target }} is {{ unseen["value"]|number(digits=2) }}{{ " years" if files.target == "age" }}
({{ naming.interval_phrase(files, unseen.interval|interval(digits=2)) }}
{% if unseen.n is not none %}; {{ "{:,}".format(unseen.n) }} scans{% endif %})
{% if is_error %}
{% set known = home.text() ~ " at sites that it knows" if home else "that at sites that it knows" %}
, {% if not grown %}against {{ known }}
{% else %}
{{ grown["value"]|number(digits=2) }} times
({{ grown.interval|interval(digits=2) if grown.interval else "no interval" }})
{{ "the" if home }} {{ known }}
{% if grown.interval and grown.low <= 1 <= grown.high %}
(whether that is a change at all, these data do not settle)
{% endif %}
{% endif %}
{{ beside_constant(key) }}.
{% else %}
{% if home %}, against {{ home.text() }} at sites that it knows{% endif %}.
{% if level is not none %}
{% if unseen.interval is none or unseen.low <= level <= unseen.high %}
That it is better than chance ({{ level|number(digits=2) }}) there is not shown by these data.
{% else %}
That is {{ "above" if unseen["value"] > level else "below" }} chance ({{ level|number(digits=2) }}).
{% endif %}
{% endif %}
{% if error and ratio(error) %}
The {{ metric(error).label }} there is {{ ratio(error).text() }} times that at known sites{{ beside_constant(error) }}.
{% endif %}
{% endif %}
"""
_DETAILS = """
{% set block = s.new_site or {} %}
{% if (block.design or "leave-one-site-out") == "leave-one-site-out" %}
Each of {{ n_sites }} sites was left out once and predicted by a probe fitted on the others
{% else %}
{{ n_sites }} sites were left out ({{ block.design }}) and predicted by probes fitted on the others
{% endif %}
, with standardisation and penalty chosen without them; known: the same people in the main cross-validation, in which
others of their site were trained on. Constant guess: {{ constant_words }}.
{% if block.bootstrap_unit %}
Intervals: bootstrap of {{ block.bootstrap_unit }}s, the same resamples throughout, probes held fixed.
{% endif %}
{% if pooled %}Pooled over left-out sites: {{ pooled|listed }}.{% endif %}
{% if shift %}
The largest shift of level is at {{ shift.site }}: predictions lie {{ shift.by }} {{ shift.side }} the truth on average;
only labelled scans of the site show it.
{% endif %}
{% if block.skipped %}
Not left out: {% for each in block.skipped %}{{ each.site }} ({{ each.why or "no reason given" }})
{{- " and " if loop.revindex == 2 else ", " if not loop.last }}{% endfor %}.
{% endif %}
"""
_RECENTRED = """
Transductive: each site's own mean was taken out of its features, that of the unseen site from its unlabelled scans. It
needs a batch of scans of the site before the first prediction, and takes out real differences between the people of
sites too, where they were not kept on purpose; a single scan of a new site does not get it. The result above, and what
is said of other test sets, is of recentred features as well; “known” and “unseen” without the word are not.
{% if moved %}
{{ metric(key).label }} at unseen sites: {{ moved.text() }}
{% if grown %}, {{ grown.text() }} times that at known sites, recentred too{% endif %}
; without recentring: {{ plain.text() if plain else "–" }}
{% if guess %}; constant guess: {{ guess["value"]|number(digits=2) }}{% endif %}.
{% endif %}
"""
_METHODS = """
## Unseen sites.
{% set block = s.new_site %}
{% if block and block.unseen %}
To estimate what happens at a site that was not trained on,
{% if (block.design or "leave-one-site-out") == "leave-one-site-out" %}each site was left out in turn
{% else %}sites were left out ({{ block.design }}){% endif %}
(internal–external cross-validation {{ cite(INTERNAL_EXTERNAL) }}): everything that is fitted after
the encoder, from standardisation to the choice of the penalty, used the other sites only. These predictions are set
beside those of the main cross-validation for the same people, where other people of their site were trained on, and
beside a constant guess, {{ {"continuous": "the median of", "binary": "the share of positives at",
"multiclass": "the shares of the classes at"}[files.kind] }} the training sites, the same for everybody.
{% if block.ratio.embedding %}
{% set errors = [] %}
{% for key in block.ratio.embedding %}{% do errors.append(metric(key).name) %}{% endfor %}
The ratio of unseen to known is given for {{ errors|listed }}, with a paired bootstrap interval.
{% endif %}
{% if block.unseen.recentred %}
In a second, transductive analysis each site's own mean was taken out of its features, for the left-out site the mean of
its unlabelled scans; it is in the spirit of adapting a network's normalisation to an unlabelled domain {{ cite("Li Y, "
"Wang N, Shi J, Hou X, Liu J. Adaptive batch normalization for practical domain adaptation. Pattern Recognit "
"2018;80:109–117.") }}.
{% endif %}
{% endif %}
"""


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the panel of unseen sites: cards, sentences to quote, dumbbells and tables."""
    del options
    metric = new_sites.new_site_metric(files)
    if metric is None:
        return Section("new_site", _TITLE, [Paragraph(_why_not(files), role="note")])
    blocks: list[Block] = [Cards(_cards(files, metric)), *_words(files, metric)]
    if files.new_sites is None:
        blocks.append(Paragraph(missing_note(_INPUT), role="note"))
    second = next((key for key in _SECOND if key in new_sites.new_site_metrics(files) and key != metric), None)
    drawn = [draw_new_sites(files, key) for key in (metric, second) if key]
    pictures = [picture for picture in drawn if picture is not None]
    blocks += [Pictures(pictures)] if pictures else []
    blocks += [table for table in (table_pooled_sites(files), table_new_sites(files, metric)) if table]
    lead = (
        "The people of every site, predicted by a probe that was fitted without any scan of the site: what to expect "
        "at another hospital, as far as this collection can tell. The encoder is the same throughout; only a run that "
        "was pretrained without the site tells what pretraining has to do with it."
    )
    return Section("new_site", _TITLE, blocks, lead=lead)


def _why_not(files: EvaluationFiles) -> str:
    note = files.summary.new_site_note
    if files.summary.splits == "leave-site-out":
        text = "The result above is that of unseen sites already: each was left out in turn. See Site by site."
        return f"{text} {note}" if note else text
    if note:
        return f"Not shown: how the model does at a site that it has not seen. {capitalise(note)}"
    return missing_note(_INPUT)


def _words(files: EvaluationFiles, metric: str) -> list[Block]:
    quote = " ".join(text for text in (say_new_site(files), say_spread(files)) if text)
    blocks: list[Block] = [Paragraph(quote, label="To quote.", role="quote")] if say_new_site(files) else []
    blocks.append(Paragraph(_say_details(files), label="For a methods reviewer.", role="quote"))
    if new_sites.recentred(files):
        names: dict[str, Any] = {
            "key": metric,
            "moved": estimate(files, "unseen", "recentred", metric),
            "plain": estimate(files, "unseen", "embedding", metric),
            "grown": new_sites.ratio(files, metric, model="recentred"),
            "guess": new_sites.constant_estimate(files, metric),
        }
        blocks.append(Items([("Recentred by site.", write(_RECENTRED, files, **names))], role="warnings"))
    return blocks


def say_new_site(files: EvaluationFiles) -> str | None:
    """Say what an unseen site costs, and whether anything is left there; None where it is not known."""
    key = new_sites.new_site_metric(files)
    unseen = estimate(files, "unseen", "embedding", key) if key else None
    if key is None or unseen is None:
        return None
    errors = files.summary.new_site.ratio.get("embedding", {}) if files.summary.new_site else {}
    names: dict[str, Any] = {
        "key": key,
        "unseen": unseen,
        "home": estimate(files, "home", "embedding", key),
        "grown": new_sites.ratio(files, key),
        "is_error": new_sites.is_error(key),
        "level": chance_level(key, len(files.classes)),
        "error": next((name for name in ("brier", "log_loss", "mae") if name in errors and name != key), None),
        "ratio": lambda name: new_sites.ratio(files, name),
        "judge": lambda name: new_sites.judge_constant(files, name),
        "constant": lambda name: new_sites.constant_estimate(files, name),
    }
    return write(_QUOTE, files, **names)


def say_spread(files: EvaluationFiles) -> str | None:
    """Say from where to where the metric runs over the left-out sites; None with fewer than two of them."""
    metric = new_sites.new_site_metric(files)
    if metric is None:
        return None
    rows = new_sites.site_rows(files, metric).dropna(subset=["embedding_unseen"])
    if len(rows) < 2:
        return None
    rows = rows.sort_values("embedding_unseen", ascending=new_sites.is_error(metric), kind="stable")
    best, worst = (
        f"{number_text(row['embedding_unseen'], digits=2)} ({row['site']}, n = {number_text(row['n'], digits=0)})"
        for row in (rows.iloc[0], rows.iloc[-1])
    )
    text = f"Site by site the {describe_metric(metric).name} runs from {best} to {worst}."
    if len(rows) < _FEW_SITES:
        text += (
            f" Intervals are about other people at these {len(rows)} sites; so few sites cannot say what another site "
            "would bring, and their spread is the better guide."
        )
    return text


def _say_details(files: EvaluationFiles) -> str:
    """Say for a methods reviewer how the sites were left out, what the rank and the level do, and who is missing."""
    block = files.summary.new_site
    pooled, shift = [], None
    if files.kind == "continuous":
        names = {"spearman": describe_metric("spearman").name, "r2": describe_metric("r2").name, "bias": "mean error"}
        values = {key: estimate(files, "unseen", "embedding", key) for key in names}
        pooled = [f"{names[key]} {value.text(signed=key == 'bias')}" for key, value in values.items() if value]
        shift = _largest_shift(files)
    n_sites = (block.n_sites or len(block.left_out)) if block else len(new_sites.site_rows(files, "n"))
    constant = new_sites.CONSTANT[files.kind]
    return write(_DETAILS, files, n_sites=n_sites, constant_words=constant, pooled=pooled, shift=shift)


def _largest_shift(files: EvaluationFiles) -> dict[str, str] | None:
    """Return the site with the largest mean error among those whose interval excludes zero."""
    rows = new_sites.site_rows(files, "bias")
    low, high = rows["embedding_unseen_low"], rows["embedding_unseen_high"]
    sure = rows[(low > 0) | (high < 0)]
    if sure.empty:
        return None
    row = sure.iloc[int(sure["embedding_unseen"].abs().to_numpy().argmax())]
    ends = sorted(abs(row[f"embedding_unseen_{end}"]) for end in ("low", "high"))
    by = Estimate(abs(row["embedding_unseen"]), *ends).text()
    return {"site": row["site"], "by": by, "side": "above" if row["embedding_unseen"] > 0 else "below"}


def _cards(files: EvaluationFiles, metric: str) -> list[Card]:
    name = capitalise(describe_metric(metric).name)
    home, unseen = (estimate(files, part, "embedding", metric) for part in ("home", "unseen"))
    cards = [
        _card(files, f"{name} at unseen sites", unseen, strong=True),
        _card(files, f"{name} at sites it knows", home),
    ]
    grown = new_sites.ratio(files, metric)
    if grown is not None:
        detail = interval_phrase(files, interval_text(grown.interval, digits=2))
        cards.append(Card("Unseen ÷ known", number_text(grown.value, digits=2), f"{detail}; 1: nothing is lost"))
    constant, chance = new_sites.constant_estimate(files, metric), chance_level(metric, len(files.classes))
    if chance is not None:
        cards.append(Card(f"{name}, chance", number_text(chance, digits=2), "a guess without the scan"))
    else:
        value = number_text(constant.value if constant else None, digits=2)
        cards.append(Card(f"{name}, constant guess", value, new_sites.CONSTANT[files.kind]))
    return [*cards, *_site_card(files)]


def _card(files: EvaluationFiles, label: str, value: Estimate | None, *, strong: bool = False) -> Card:
    if value is None:
        return Card(label, DASH, "not computed", strong)
    detail = interval_phrase(files, interval_text(value.interval, digits=2))
    detail += f"; {value.n:,} scans" if value.n is not None else ""
    return Card(label, number_text(value.value, digits=2), detail, strong)


def _site_card(files: EvaluationFiles) -> list[Card]:
    """Return how well the site can be told from the embedding, where the evaluation says so."""
    site = files.summary.new_site.site_predictability if files.summary.new_site else None
    if site is None or site.balanced_accuracy is None:
        return []
    interval = interval_text((site.low, site.high), digits=2)
    parts = [interval] if interval != DASH else []
    parts += [f"chance {number_text(site.chance, digits=2)}"] if site.chance is not None else []
    parts += [f"{site.n_sites} sites"] if site.n_sites else []
    return [Card("Site told, bal. accuracy", number_text(site.balanced_accuracy, digits=2), "; ".join(parts))]


NEW_SITE = SectionBuilder(
    "new_site",
    _TITLE,
    order=20,
    build=_build,
    inputs=(_INPUT,),
    methods=_METHODS,
    covers="unseen sites",
    of=("scans",),
    explains_absence=True,
)
