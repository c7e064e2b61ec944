"""The result at each site."""

import pandas as pd

from neurocontrast.evaluation.fit.out_of_fold import Models
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.measure.subgroups import describe_part
from neurocontrast.evaluation.plan.plan import Plan


def measure_sites(inputs: Inputs) -> Measurement:
    """Return the table of sites."""
    return Measurement(tables={"sites": site_table(inputs.plan, inputs.models)})


def site_table(plan: Plan, models: Models) -> pd.DataFrame:
    """Return one row a site: counts, pooled out-of-fold metrics with intervals, the baseline's, and a note.

    Intervals resample the subjects of the site; a site with fewer than ``min_site_n`` has none.
    """
    if plan.fixed and plan.table["site"].isna().all():  # all images again, under another name
        return pd.DataFrame({"site": [], "n": [], "note": []})
    sites = plan.sites
    tested = models["embedding"].tested
    names = sorted(set(sites[tested]))
    return pd.DataFrame(
        [
            {"site": name}
            | describe_part(plan, models, tested[sites[tested] == name], "site-intervals", name)
            for name in names
        ]
    )
