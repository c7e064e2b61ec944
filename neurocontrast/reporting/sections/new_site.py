"""What happens at a site that the model has not seen: what a hospital group asks first."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Card, Cards, Items, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.scores import draw_new_sites
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.inputs import missing_note
from neurocontrast.reporting.metrics import DASH, chance_level, describe_metric, interval_text, number_text
from neurocontrast.reporting.naming import capitalise
from neurocontrast.reporting.new_site_sentences import (
    say_new_site,
    say_new_site_details,
    say_recentred,
    say_spread,
)
from neurocontrast.reporting.new_sites import (
    CONSTANT,
    Estimate,
    constant_estimate,
    estimate,
    new_site_metric,
    new_site_metrics,
    ratio,
    recentred,
)
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.site_predictability import SitePredictability, site_predictability
from neurocontrast.reporting.tables import table_new_sites, table_pooled_sites

__all__ = ["build_new_site"]

_TITLE = "At a site it has not seen"
_SECOND = ("bias", "balanced_accuracy", "brier")


def build_new_site(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the panel of unseen sites: cards, sentences to quote, dumbbells and tables."""
    del options
    metric = new_site_metric(files)
    if metric is None:
        return Section("new_site", _TITLE, [Paragraph(_why_not(files), role="note")])
    blocks: list[Block] = [Cards(_cards(files, metric)), *_words(files)]
    if files.new_sites is None:
        blocks.append(Paragraph(missing_note("new_sites"), role="note"))
    second = next((key for key in _SECOND if key in new_site_metrics(files) and key != metric), None)
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
    note = files.summary.get("new_site_note")
    if files.summary.get("splits") == "leave-site-out":
        text = "The result above is that of unseen sites already: each was left out in turn. See Site by site."
        return f"{text} {note}" if note else text
    if note:
        return f"Not shown: how the model does at a site that it has not seen. {capitalise(str(note))}"
    return missing_note("new_sites")


def _words(files: EvaluationFiles) -> list[Block]:
    blocks: list[Block] = []
    said = say_new_site(files)
    if said:
        spread = say_spread(files)
        blocks.append(Paragraph(f"{said} {spread}" if spread else said, label="To quote.", role="quote"))
    blocks.append(Paragraph(say_new_site_details(files), label="For a methods reviewer.", role="quote"))
    if recentred(files):
        blocks.append(Items([("Recentred by site.", say_recentred(files))], role="warnings"))
    return blocks


def _cards(files: EvaluationFiles, metric: str) -> list[Card]:
    name, digits = capitalise(describe_metric(metric).name), 2
    home, unseen = (estimate(files, part, "embedding", metric) for part in ("home", "unseen"))
    cards = [
        Card(f"{name} at unseen sites", _value(unseen, digits), _detail(files, unseen), strong=True),
        Card(f"{name} at sites it knows", _value(home, digits), _detail(files, home)),
    ]
    grown = ratio(files, metric)
    if grown is not None:
        detail = interval_text(grown.interval, digits=digits)
        level = f"{files.level:.0%} interval {detail}" if detail != DASH else "no interval"
        cards.append(Card("Unseen ÷ known", _value(grown, digits), f"{level}; 1: nothing is lost"))
    cards.append(_reference_card(files, metric))
    site = site_predictability(files)
    return [*cards, _site_card(site)] if site else cards


def _value(value: Estimate | None, digits: int) -> str:
    return number_text(None if value is None else value.value, digits=digits)


def _detail(files: EvaluationFiles, value: Estimate | None) -> str:
    if value is None:
        return "not computed"
    interval = interval_text(value.interval, digits=2)
    text = f"{files.level:.0%} interval {interval}" if interval != DASH else "no interval"
    return f"{text}; {value.n:,} scans" if value.n is not None else text


def _reference_card(files: EvaluationFiles, metric: str) -> Card:
    constant, chance = constant_estimate(files, metric), chance_level(metric, len(files.classes))
    name = capitalise(describe_metric(metric).name)
    if chance is not None:
        return Card(f"{name}, chance", number_text(chance, digits=2), "a guess without the scan")
    return Card(f"{name}, constant guess", _value(constant, 2), CONSTANT[files.kind])


def _site_card(site: SitePredictability) -> Card:
    interval = interval_text(site.interval, digits=2)
    parts = [interval] if interval != DASH else []
    parts += [f"chance {number_text(site.chance, digits=2)}"] if site.chance is not None else []
    parts += [f"{site.n_sites} sites"] if site.n_sites else []
    return Card("Site told, bal. accuracy", number_text(site.value, digits=2), "; ".join(parts))
