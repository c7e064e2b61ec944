"""Transformers that take covariates (`Residualiser`) and sites (`ComBat`) out of features."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_string_dtype
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from neurocontrast.data.levels import (
    UnseenLevelError,
    level_column,
)
from neurocontrast.evaluation.probes.encoding import covariate_encoder
from neurocontrast.evaluation.rows import Floats, Texts
from neurocontrast.exceptions import one_of, suggestion
from neurocontrast.progress import warn_caller

Column = str | int
"""A name in a DataFrame, or a position in an array of numbers."""
MIN_SITE_SCANS = 3
"""Fewest training scans of a site whose spread can be estimated."""
MAX_ITERATIONS = 1000
TOLERANCE = 1e-10
_N_SITES = 8  # shown in a message
_HANDLINGS = ("error", "ignore")
"""Allowed values of `handle_unknown`."""


class SideColumnTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Adjust the features of a table by its side columns, such as the site or covariates.

    Features and side columns are columns of one table. Parameters name the side columns; every
    column that no parameter names is a feature. Results hold the features alone.
    """

    side_parameters: ClassVar[tuple[str, ...]] = ()
    """Names of the parameters that name a side column, or several side columns."""
    single_parameters: ClassVar[tuple[str, ...]] = ()
    """Names of the `side_parameters` that name one side column, or None."""
    handle_unknown: str
    """Setting of every subclass for levels that `fit` has not seen: "error" or "ignore"."""

    def side_columns(self) -> tuple[Column, ...]:
        """Return names or positions of the columns that are no features, such as site and age.

        Such columns are called side columns. They are the values of the transformer's parameters
        listed in `side_parameters`: ``Residualiser(covariates=["age"])`` has the side column
        ``age``.
        """
        columns: list[Column] = []
        for parameter in self.side_parameters:
            named = getattr(self, parameter)
            if isinstance(named, Column):
                columns.append(named)
            elif named is not None:
                columns += named
        return tuple(columns)

    def estimate(self, x: Floats, side: pd.DataFrame) -> None:
        """Learn from training rows how features (n, p) depend on the columns of the table `side`.

        `side` has the site, or covariates such as age, of each row. Estimates are stored in
        attributes of the transformer.
        """
        raise NotImplementedError

    def adjust(self, x: Floats, side: pd.DataFrame) -> Floats:
        """Return features (n, p) without the effects of `side` that `estimate` has learned.

        `side` has the site, or covariates such as age, of each row.
        """
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Any:  # noqa: ARG002
        """Learn how features depend on the site or covariates; return the transformer.

        `X` is a DataFrame or array whose columns are the features, and the site or covariates that
        the transformer's parameters name.
        """
        self._check_parameters()
        self.estimate(*self._read(X, reset=True))
        return self

    def transform(self, X: Any) -> Floats:
        """Return features (n, p) without the effects of site or covariates that `fit` has learned.

        `X` has the columns that it had in `fit`. The result lacks the columns of site and
        covariates, which the transformer's parameters name.
        """
        check_is_fitted(self, "n_features_in_")
        return self.adjust(*self._read(X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> Texts:
        """Return the names of the adjusted features, without the side columns."""
        check_is_fitted(self, "n_features_in_")
        names = np.asarray(super().get_feature_names_out(input_features), dtype=object)
        keys = pd.Index(names if hasattr(self, "feature_names_in_") else range(len(names)))
        return np.asarray(names[~keys.isin(self.side_columns())], dtype=object)

    def encode_covariates(
        self, side: pd.DataFrame, columns: Sequence[Column], *, fit: bool = False
    ) -> Floats:
        """Return the covariates `columns` of the table `side` as a matrix of numbers.

        The numbers are made by the attribute `encoder_`, which turns categories into columns; with
        `fit`, it is first made, and fitted to these covariates.
        """
        chosen = side[list(map(str, columns))]
        if fit:
            self.encoder_ = covariate_encoder(handle_unknown=self.handle_unknown).fit(chosen)
        return self.encoder_.transform(chosen)

    def _check_parameters(self) -> None:
        """Refuse parameters of a wrong type or value, in the words of scikit-learn."""
        for parameter in self.side_parameters:
            value = getattr(self, parameter)
            if parameter in self.single_parameters:
                allowed = "an instance of 'str', an instance of 'int' or None"
                is_allowed = value is None or isinstance(value, Column)
            else:
                allowed = "an array-like"
                is_allowed = hasattr(value, "__len__") and not isinstance(value, str | bytes)
            if not is_allowed:
                raise ValueError(self._refusal(parameter, allowed))
        if self.handle_unknown not in _HANDLINGS:
            allowed = f"a str among {{{one_of(_HANDLINGS)}}}"
            raise ValueError(self._refusal("handle_unknown", allowed))

    def _refusal(self, parameter: str, allowed: str) -> str:
        """Return the message that a parameter's value is not among the allowed ones."""
        name = type(self).__name__
        value = getattr(self, parameter)
        return f"The '{parameter}' parameter of {name} must be {allowed}. Got {value!r} instead."

    def _read(self, X: Any, *, reset: bool) -> tuple[Floats, pd.DataFrame]:
        """Return the features (n, p) of `X`, and a table of the columns that parameters name.

        The names of the table's columns are text, also where parameters give positions. A missing
        column, and text in a feature, are refused.
        """
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            table = X
        else:
            table = pd.DataFrame(validate_data(self, X, dtype=np.float64, reset=reset))
        name = type(self).__name__
        n = table.shape[1]
        lacking = [column for column in self.side_columns() if column not in table]
        if lacking:
            near = suggestion(str(lacking[0]), list(map(str, table.columns)))
            raise ValueError(f"{name}: X has no column {lacking[0]!r} (n_features={n}).{near}")
        features = table.loc[:, ~table.columns.isin(self.side_columns())]
        if not features.shape[1]:
            raise ValueError(
                f"{name}: X has n_features={n}, all of them named by parameters; at least one "
                "other column is needed, "
                "to be adjusted."
            )
        textual = [
            column
            for column, values in features.select_dtypes(exclude="number").items()
            if is_string_dtype(values)
        ]
        if textual:
            raise ValueError(
                f"{name}: column {textual[0]!r} holds text, and every column that no parameter "
                "names is a feature. Leave it out of X."
            )
        numbers = features.to_numpy(
            dtype=np.float64, na_value=np.nan
        )  # check_array would look at column after column
        x = check_array(numbers, order="C", estimator=self, input_name="X")
        side = table[list(dict.fromkeys(self.side_columns()))]
        return x, side.set_axis(side.columns.astype(str), axis=1)


class Residualiser(SideColumnTransformer):
    """Take the linear effect of covariates, estimated on training rows, out of features.

    The training mean of each feature stays. Without covariates the features are unchanged.

    Parameters
    ----------
    covariates : sequence of str or int, default=()
        Side columns whose effect is taken out: numbers, or text that becomes one column a level
        (`covariate_encoder`). Never what is to be predicted.
    handle_unknown : {"error", "ignore"}, default="error"
        What to do with rows of a level that `fit` has not seen: refuse them by name, or take out
        the effect of the other covariates alone and warn.

    Attributes
    ----------
    centre_, coef_ : array (q,), (q, n features)
        Training means of the covariates as numbers, and the change of each feature with each of
        them.

    Examples
    --------
    >>> import pandas as pd
    >>> from neurocontrast.evaluation import Residualiser
    >>> table = pd.DataFrame({"volume": [1.0, 2.0, 3.0, 5.0], "age": [20.0, 40.0, 60.0, 80.0]})
    >>> Residualiser(covariates=["age"]).fit_transform(table).round(2).ravel().tolist()
    [2.95, 2.65, 2.35, 3.05]
    """

    side_parameters = ("covariates",)

    def __init__(self, covariates: Sequence[Column] = (), *, handle_unknown: str = "error") -> None:
        self.covariates = covariates
        self.handle_unknown = handle_unknown

    def estimate(self, x: Floats, side: pd.DataFrame) -> None:
        """Regress features `x` (n, p) on the covariates in `side` by least squares.

        The coefficients, and the covariates' means, are stored as `coef_` and `centre_`.
        """
        if not len(self.covariates):
            return
        covariates = self.encode_covariates(side, self.covariates, fit=True)
        self.centre_ = covariates.mean(axis=0)
        # LinearRegression gives the same up to its last bits, which differ from run to run.
        self.coef_ = np.linalg.lstsq(covariates - self.centre_, x - x.mean(axis=0), rcond=None)[0]

    def adjust(self, x: Floats, side: pd.DataFrame) -> Floats:
        """Return features (n, p) without the effect of the covariates in the table `side`.

        The effect is the one that `estimate` has learned.
        """
        if not len(self.covariates):
            return x
        return x - (self.encode_covariates(side, self.covariates) - self.centre_) @ self.coef_


# combatlearn (2.3) has fit and transform with covariates too, but needs umap-learn, plotly and
# seaborn; neuroHarmonize (2.5) has functions only, and neither leaves rows of an unknown site as
# they are.
class ComBat(SideColumnTransformer):
    """Harmonise features between sites by ComBat, estimated on the training rows.

    The mean and the spread of each site are estimated with empirical Bayes and taken out; what the
    preserved covariates explain stays. Rows of a site with fewer than three rows in `fit` cannot be
    harmonised.

    Parameters
    ----------
    site : str or int, default=None
        Column of the site. With None all rows are of one site, and the features stay as they are.
    preserve : sequence of str or int, default=()
        Covariates whose effect on the features stays. Wherever sites differ in age, age belongs
        here, or ComBat takes the difference in age out with the site. Never what is to be
        predicted.
    handle_unknown : {"error", "ignore"}, default="error"
        What to do with rows of a site that has fewer than three training rows: raise, or leave them
        as they are.

    Attributes
    ----------
    sites_, shift_, spread_ : array (n sites,), (n sites, p), (n sites, p)
        Sites, posterior shift in units of `scale_`, and posterior ratio of the variance.
    mean_, coef_, scale_ : array (p,), (q, p), (p,)
        Grand mean, effects of the preserved covariates, and pooled standard deviation within sites.

    Notes
    -----
    Harmonised features are those of neuroHarmonize to 1e-6 (tested).

    References
    ----------
    Johnson, Li & Rabinovic (2007), Biostatistics 8:118. Fortin et al. (2018), NeuroImage 167:104.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from neurocontrast.evaluation import ComBat
    >>> generator = np.random.default_rng(0)
    >>> table = pd.DataFrame(generator.normal(size=(40, 3)), columns=["a", "b", "c"])
    >>> table["site"], table["age"] = ["london", "paris"] * 20, generator.uniform(20, 80, 40)
    >>> table.loc[table["site"] == "paris", ["a", "b", "c"]] += 5
    >>> combat = ComBat("site", preserve=["age"]).set_output(transform="pandas")
    >>> harmonised = combat.fit_transform(table)
    >>> bool(harmonised.groupby(table["site"]).mean().diff().loc["paris"].abs().max() < 0.5)
    True
    """

    side_parameters = ("site", "preserve")
    single_parameters = ("site",)

    def __init__(
        self,
        site: Column | None = None,
        *,
        preserve: Sequence[Column] = (),
        handle_unknown: str = "error",
    ) -> None:
        self.site = site
        self.preserve = preserve
        self.handle_unknown = handle_unknown

    def estimate(self, x: Floats, side: pd.DataFrame) -> None:
        """Estimate each site's shift and spread of the features `x`, and store them as attributes.

        Within a site, the shifts of all features are shrunk towards the mean shift over the
        features, and the spreads towards the mean spread (empirical Bayes).
        """
        if self.site is None:
            return
        sites = self._names_of(side)
        covariates = self.encode_covariates(side, self.preserve, fit=True)
        places, counts = np.unique(sites, return_counts=True)
        self.sites_ = places[counts >= MIN_SITE_SCANS]
        self._check_known(sites)
        kept = np.isin(sites, self.sites_)
        x = x[kept]
        extra = covariates[kept]
        codes = np.searchsorted(self.sites_, sites[kept])
        if not len(x):
            return
        member = np.eye(len(self.sites_))[codes]
        centre = extra.mean(
            axis=0
        )  # the constant goes to the sites, whatever the covariates' units
        solved = np.linalg.lstsq(np.column_stack([member, extra - centre]), x, rcond=None)[0]
        means = solved[: len(self.sites_)]
        self.coef_ = solved[len(self.sites_) :]
        residuals = x - member @ means - (extra - centre) @ self.coef_
        scale = np.sqrt((residuals**2).mean(axis=0))
        varies = scale > 1e-10 * np.maximum(np.abs(x).max(axis=0), 1e-300)
        self.scale_ = np.where(varies, scale, 1.0)
        self.mean_ = member.mean(axis=0) @ means - centre @ self.coef_
        standard = (x - self.mean_ - extra @ self.coef_) / self.scale_
        # What is constant within sites has no spread to share with the others: its plain shift is
        # taken out.
        self.shift_ = np.stack(
            [standard[codes == code].mean(axis=0) for code in range(len(self.sites_))]
        )
        self.spread_ = np.ones_like(self.shift_)
        for code in range(len(self.sites_)) if len(self.sites_) > 1 else ():
            self.shift_[code, varies], self.spread_[code, varies] = _posterior(
                standard[codes == code][:, varies]
            )

    def adjust(self, x: Floats, side: pd.DataFrame) -> Floats:
        """Return features (n, p) harmonised to the average site.

        `side` has the site and the preserved covariates of each row. The shift and spread of each
        row's site are those that `estimate` learned. Rows of a site that was not learned are
        refused, or with ``handle_unknown="ignore"`` unchanged.
        """
        if self.site is None:
            return x
        sites = self._names_of(side)
        covariates = self.encode_covariates(side, self.preserve)
        self._check_known(sites)
        is_learned = np.isin(sites, self.sites_)
        adjusted = x.copy()
        if not is_learned.any():
            return adjusted
        places = np.searchsorted(self.sites_, sites[is_learned])
        expected = self.mean_ + covariates[is_learned] @ self.coef_
        standard = (x[is_learned] - expected) / self.scale_ - self.shift_[places]
        adjusted[is_learned] = standard / np.sqrt(self.spread_[places]) * self.scale_ + expected
        return adjusted

    def _names_of(self, side: pd.DataFrame) -> npt.NDArray[np.str_]:
        """Return the site of each row as text; refuse rows without a site."""
        column = str(self.site)
        values = level_column("site", side[column])
        missing = int(values.isna().sum())
        if missing:
            raise ValueError(
                f"ComBat: column {self.site!r} is missing in {missing} of {len(values)} rows, and "
                "each row needs a "
                "value. Fill it in, or leave these rows out."
            )
        return values.to_numpy(dtype=object).astype(str)

    def _check_known(self, sites: npt.NDArray[np.str_]) -> None:
        """Refuse rows of sites without estimates, or with ``handle_unknown="ignore"`` warn of them.

        `sites` has the site of each row. A site has estimates if `estimate` has had at least three
        rows of it. The warning says that the rows stay as they are.
        """
        unknown = sorted(set(sites) - set(self.sites_))
        if not unknown:
            return
        sentence = _describe_unlearned(sites, unknown, self.sites_.tolist())
        if self.handle_unknown == "error":
            raise UnseenLevelError(
                f"{sentence} Leave these rows out, or set handle_unknown='ignore' to keep them "
                "as they are."
            )
        warn_caller(f"{sentence} These rows stay as they are.")


def _describe_unlearned(
    sites: npt.NDArray[np.str_], unknown: Sequence[str], learned: Sequence[str]
) -> str:
    """Return a sentence that names sites that ComBat has not learned, and the learned sites.

    Several unlearned sites are shown with the number of rows of each: `sites` has the site of every
    row to harmonise.
    """
    subject = f"site '{unknown[0]}' has"
    if len(unknown) > 1:
        counts = [f"'{site}' ({np.count_nonzero(sites == site)} rows)" for site in unknown]
        more = f" and {len(counts) - _N_SITES} more" if len(counts) > _N_SITES else ""
        subject = f"sites {', '.join(counts[:_N_SITES])}{more} have"
    sentence = (
        f"ComBat: {subject} fewer than {MIN_SITE_SCANS} rows in fit, and cannot be harmonised."
    )
    if not len(learned):
        return f"{sentence} No site was learned."
    return f"{sentence} Learned were {one_of(learned)}.{suggestion(unknown[0], learned)}"


def _posterior(standard: Floats) -> tuple[Floats, Floats]:
    """Estimate posterior shift and variance (p,) of one site's standardised features (n, p).

    Johnson et al. (2007), section 3.2.
    """
    n = len(standard)
    shift = standard.mean(axis=0)
    variance = standard.var(axis=0, ddof=1)
    if standard.shape[1] < 2 or variance.var(ddof=1) <= 1e-24:  # no prior to draw towards
        return shift, np.maximum(variance, 1e-12)
    prior_shift = shift.mean()
    prior_spread = shift.var(ddof=1)
    middle = variance.mean()
    around = variance.var(ddof=1)
    shape = (2 * around + middle**2) / around
    rate = (middle * around + middle**3) / around
    squares = (standard**2).sum(axis=0)
    current = shift
    spread = variance
    for _ in range(MAX_ITERATIONS):
        moved = (n * prior_spread * shift + spread * prior_shift) / (n * prior_spread + spread)
        squared_errors = squares - 2 * moved * n * shift + n * moved**2  # about the moved shift
        wider = (squared_errors / 2 + rate) / (n / 2 + shape - 1)
        change = max(np.abs(moved - current).max(), np.abs(wider - spread).max())
        current = moved
        spread = wider
        if change <= TOLERANCE:
            break
    return current, spread
