"""Tabulate the metrics of every model at each site."""

import pandas as pd

from neurocontrast.evaluation.fit.out_of_fold import Predictions
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.measure.subgroups import describe_part
from neurocontrast.evaluation.plan.plan import Plan


def measure_sites(inputs: Inputs) -> Measurement:
    """Return the table ``sites.tsv`` as a `Measurement`: the metrics of every model at each site.

    The metrics are of the out-of-fold predictions in `inputs`.
    """
    return Measurement(tables={"sites": site_table(inputs.plan, inputs.predictions)})


def site_table(plan: Plan, predictions: Predictions) -> pd.DataFrame:
    """Return a table with one row a site: counts of scans, metrics of every model, and a note.

    Only tested scans count; scans without a site form one row, `NO_SITE`. The note is a text that
    says why a metric or an interval is missing, or None. The embedding's metrics have intervals, by
    resampling the subjects of the site; a site with fewer subjects than ``min_site_n`` has none.
    The table is empty if a column names the test rows and no scan has a site.
    """
    if plan.fixed and plan.table["site"].isna().all():  # all images again, under another name
        return pd.DataFrame({"site": [], "n": [], "note": []})
    sites = plan.sites
    tested = predictions["embedding"].tested
    names = sorted(set(sites[tested]))
    return pd.DataFrame(
        [
            {"site": name}
            | describe_part(
                plan, predictions, tested[sites[tested] == name], "site-intervals", name
            )
            for name in names
        ]
    )
