"""What evaluation.json must hold about sites left out and about scans that lie outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["misshapen_new_site"]

_NUMBERS = ("value", "low", "high", "n", "difference")


def misshapen_new_site(summary: Mapping[str, Any]) -> Iterator[str]:
    """Name every key of `new_site` and `outlyingness` that holds something else than `evaluate` writes there."""
    block = summary.get("new_site")
    if isinstance(block, dict):
        for part in ("home", "unseen", "ratio", "difference", "unseen_minus_constant"):
            yield from _misshapen_estimates(f"new_site.{part}", block.get(part))
        yield from _misshapen_numbers("new_site.site_predictability", block.get("site_predictability"))
        yield from _misshapen_lists(block)
    external = summary.get("external")
    beside = external.get("outlyingness") if isinstance(external, dict) else None
    for key, outside in (("outlyingness", summary.get("outlyingness")), ("external.outlyingness", beside)):
        yield from _misshapen_outlyingness(key, outside)


def _misshapen_estimates(key: str, part: Any) -> Iterator[str]:
    """Name what is not {model: {metric: {value, low, high}}}."""
    if part is None:
        return
    if not isinstance(part, dict):
        yield f"'{key}' must be a section of keys, found {part!r:.60}"
        return
    for model, metrics in part.items():
        if not isinstance(metrics, dict):
            yield f"'{key}.{model}' must be a section of keys, found {metrics!r:.60}"
            continue
        for metric, figures in metrics.items():
            yield from _misshapen_numbers(f"{key}.{model}.{metric}", figures)


def _misshapen_numbers(key: str, figures: Any) -> Iterator[str]:
    if figures is None:
        return
    if not isinstance(figures, dict):
        yield f"'{key}' must be a section of keys, found {figures!r:.60}"
        return
    for name in (*_NUMBERS, "balanced_accuracy", "chance", "n_sites"):
        if not _is_number(figures.get(name)):
            yield f"'{key}.{name}' must be a number or null, found {figures[name]!r:.60}"


def _misshapen_lists(block: Mapping[str, Any]) -> Iterator[str]:
    for name in ("left_out", "models"):
        found = block.get(name)
        if found is not None and not (isinstance(found, list) and all(isinstance(each, str) for each in found)):
            yield f"'new_site.{name}' must be a list of names, found {found!r:.60}"
    skipped = block.get("skipped")
    if skipped is not None and not (isinstance(skipped, list) and all(_is_skipped(each) for each in skipped)):
        yield f"'new_site.skipped' must be a list of sites, each with why, found {skipped!r:.60}"
    if not isinstance(block.get("metric") or "", str):
        yield f"'new_site.metric' must be the name of a metric, found {block['metric']!r:.60}"


def _is_skipped(each: Any) -> bool:
    return isinstance(each, dict) and "site" in each


def _misshapen_outlyingness(key: str, block: Any) -> Iterator[str]:
    if block is None:
        return
    if not isinstance(block, dict):
        if key != "outlyingness":  # that one is named with the other sections
            yield f"'{key}' must be a section of keys, found {block!r:.60}"
        return
    for name in ("threshold_percentile", "n_outside", "n"):
        if not _is_number(block.get(name)):
            yield f"'{key}.{name}' must be a number or null, found {block[name]!r:.60}"
    for name in ("by_site", "unseen_by_site"):
        sites = block.get(name)
        if sites is not None and not (isinstance(sites, list) and all(_is_site(each) for each in sites)):
            yield f"'{key}.{name}' must be a list of site, n, n_outside and median_percentile, found {sites!r:.60}"


def _is_site(each: Any) -> bool:
    numbers = ("n", "n_outside", "median_percentile")
    return isinstance(each, dict) and "site" in each and all(_is_number(each.get(name)) for name in numbers)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
