"""Read region, kind and unit of a regional measure from the name of a column, in many spellings."""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["thickness", "volume", "area", "other"]
UNITS: dict[Kind, str] = {"thickness": "mm", "volume": "mm³", "area": "mm²", "other": ""}
"""Kind of measure → unit in a `MeasuresTable`."""
HEAD_SIZE = "EstimatedTotalIntraCranialVol"
MM3_PER_ML = 1000.0

_DESIKAN = """bankssts caudalanteriorcingulate caudalmiddlefrontal cuneus entorhinal frontalpole
fusiform inferiorparietal inferiortemporal insula isthmuscingulate lateraloccipital
lateralorbitofrontal lingual medialorbitofrontal middletemporal paracentral parahippocampal
parsopercularis parsorbitalis parstriangularis pericalcarine postcentral posteriorcingulate
precentral precuneus rostralanteriorcingulate rostralmiddlefrontal superiorfrontal
superiorparietal superiortemporal supramarginal temporalpole transversetemporal"""
_DESTRIEUX = """G_and_S_frontomargin G_and_S_occipital_inf G_and_S_paracentral G_and_S_subcentral
G_and_S_transv_frontopol G_and_S_cingul-Ant G_and_S_cingul-Mid-Ant G_and_S_cingul-Mid-Post
G_cingul-Post-dorsal G_cingul-Post-ventral G_cuneus G_front_inf-Opercular G_front_inf-Orbital
G_front_inf-Triangul G_front_middle G_front_sup G_Ins_lg_and_S_cent_ins G_insular_short
G_occipital_middle G_occipital_sup G_oc-temp_lat-fusifor G_oc-temp_med-Lingual
G_oc-temp_med-Parahip G_orbital G_pariet_inf-Angular G_pariet_inf-Supramar G_parietal_sup
G_postcentral G_precentral G_precuneus G_rectus G_subcallosal G_temp_sup-G_T_transv
G_temp_sup-Lateral G_temp_sup-Plan_polar G_temp_sup-Plan_tempo G_temporal_inf G_temporal_middle
Lat_Fis-ant-Horizont Lat_Fis-ant-Vertical Lat_Fis-post Pole_occipital Pole_temporal S_calcarine
S_central S_cingul-Marginalis S_circular_insula_ant S_circular_insula_inf S_circular_insula_sup
S_collat_transv_ant S_collat_transv_post S_front_inf S_front_middle S_front_sup
S_interm_prim-Jensen S_intrapariet_and_P_trans S_oc_middle_and_Lunatus S_oc_sup_and_transversal
S_occipital_ant S_oc-temp_lat S_oc-temp_med_and_Lingual S_orbital_lateral S_orbital_med-olfact
S_orbital-H_Shaped S_parieto_occipital S_pericallosal S_postcentral S_precentral-inf-part
S_precentral-sup-part S_suborbital S_subparietal S_temporal_inf S_temporal_sup
S_temporal_transverse"""
_OF_HEMISPHERE = "MeanThickness WhiteSurfArea PialSurfArea NumVert"
_PAIRED = """Lateral-Ventricle Inf-Lat-Vent Cerebellum-White-Matter Cerebellum-Cortex
Thalamus-Proper Caudate Putamen Pallidum Hippocampus Amygdala Accumbens-area VentralDC vessel
choroid-plexus WM-hypointensities non-WM-hypointensities Cerebral-White-Matter Cerebral-Cortex"""
_SINGLE = """3rd-Ventricle 4th-Ventricle 5th-Ventricle Brain-Stem CSF WM-hypointensities
non-WM-hypointensities Optic-Chiasm CC_Posterior CC_Mid_Posterior CC_Central CC_Mid_Anterior
CC_Anterior"""
_TOTALS = """BrainSegVol BrainSegVolNotVent BrainSegVolNotVentSurf lhCortexVol rhCortexVol
CortexVol lhCerebralWhiteMatterVol rhCerebralWhiteMatterVol CerebralWhiteMatterVol SubCortGrayVol
TotalGrayVol SupraTentorialVol SupraTentorialVolNotVent SupraTentorialVolNotVentVox MaskVol
VentricleChoroidVol EstimatedTotalIntraCranialVol"""
_RATIOS = "BrainSegVol-to-eTIV MaskVol-to-eTIV lhSurfaceHoles rhSurfaceHoles SurfaceHoles"
_OTHER_SPELLINGS = {
    "EstimatedTotalIntraCranialVol": (
        "eTIV",
        "EstimatedTotalIntraCranial",
        "ICV",
        "IntraCranialVol",
    ),
    "Thalamus-Proper": ("Thalamus", "thal"),  # FreeSurfer 7 dropped "Proper"
    # ENIGMA shortens these: Laccumb, Lhippo.
    "Accumbens-area": ("Accumbens", "accumb"),
    "Lateral-Ventricle": ("LatVent",),
    "Caudate": ("caud",),
    "Putamen": ("put",),
    "Pallidum": ("pal",),
    "Hippocampus": ("hippo",),
    "Amygdala": ("amyg",),
    "lhCerebralWhiteMatterVol": ("lhCorticalWhiteMatterVol",),  # FreeSurfer 5
    "rhCerebralWhiteMatterVol": ("rhCorticalWhiteMatterVol",),
    "CerebralWhiteMatterVol": ("CorticalWhiteMatterVol",),
}
_OTHERS = ("thicknessstd", "meancurv", "gauscurv", "foldind", "curvind")
_MEASURES: dict[str, tuple[str, Kind]] = {
    **dict.fromkeys(("thickness", "thick", "thickavg"), ("thickness", "thickness")),
    **dict.fromkeys(("volume", "vol", "grayvol"), ("volume", "volume")),
    **dict.fromkeys(("area", "surfarea", "surfavg"), ("area", "area")),
    **{name: (name, "other") for name in _OTHERS},
    "thickstd": ("thicknessstd", "other"),
    **dict.fromkeys(("vgm", "gm_vol"), ("Vgm", "volume")),  # CAT12, and brainprep's tables of it
    **dict.fromkeys(("vwm", "wm_vol"), ("Vwm", "volume")),
    **dict.fromkeys(("vcsf", "csf_vol"), ("Vcsf", "volume")),
}
_MEASURE = re.compile(
    rf"(.+?)[_. -]?(?<![a-z])({'|'.join(sorted(_MEASURES, key=len, reverse=True))})", re.IGNORECASE
)
_SIDE = {"lh": "lh", "left": "lh", "l": "lh", "rh": "rh", "right": "rh", "r": "rh"}
_SIDES = "|".join(_SIDE)
_PREFIX = re.compile(rf"({_SIDES})[_. -]+(.+)", re.IGNORECASE)
_SUFFIX = re.compile(rf"(.*[^_. -])[_. -]+({_SIDES})", re.IGNORECASE)
_VOXELS_OF = re.compile(r"(ctx|wm)[-_.](lh|rh)[-_.](.+)")


class Region(NamedTuple):
    """Region and kind of measure that a column's name means.

    Parameters
    ----------
    name : str
        Canonical name of the column.
    kind : {"thickness", "volume", "area", "other"}
        Kind of measure, which gives the unit.
    atlas : str
        FreeSurfer's name of the atlas; "" if the name tells none.
    """

    name: str
    kind: Kind
    atlas: str


class _Words(NamedTuple):
    """Words of a column's name for hemisphere, structure and measure; "" for an absent word."""

    side: str
    structure: str
    measure: str


def _folded(name: str) -> str:
    """Return a region's name in simplified spelling, to compare spellings of a region.

    The result is in lower case, without separators, and without `&` or the word `and`.
    """
    return re.sub(r"[^a-z0-9]", "", re.sub(r"&|(?<=[_. -])and(?=[_. -])", "", name.lower()))


def _by_fold(names: str, start: str = "") -> dict[str, str]:
    """Return simplified spelling → usual name, for the structures named in the text `names`.

    `names` is one text of usual names, with spaces or line breaks between them. The keys are each
    usual name, and its other spellings in `_OTHER_SPELLINGS`, in lower case without separators
    (`_folded`). `start`, a hemisphere's letter or "", is put before each key: "lhippocampus".
    """
    by_fold = {}
    for name in names.split():
        for spelling in (name, *_OTHER_SPELLINGS.get(name, ())):
            by_fold[start + _folded(spelling)] = name
    return by_fold


def _cortex() -> dict[str, tuple[str, str]]:
    """Return simplified name of a region → (usual name, atlas), for known regions of the cortex.

    A name is simplified by `_folded`: lower case, without separators.
    """
    regions = {}
    for names, atlas in ((_OF_HEMISPHERE, ""), (_DESIKAN, "aparc"), (_DESTRIEUX, "aparc.a2009s")):
        for key, name in _by_fold(names).items():
            regions[key] = (name, atlas)
    return regions


def _volumes(names: str, *, side: str = "", prefix: str = "") -> dict[str, Region]:
    """Return simplified name → `Region`, for volumes of the structures that the text `names` lists.

    A structure's name is simplified by `_folded` (lower case, without separators), and begins with
    the hemisphere's letter `side`. Usual names in the `Region` begin with `prefix`.
    """
    volumes = {}
    for key, name in _by_fold(names, side).items():
        volumes[key] = Region(f"{prefix}{name}", "volume", "aseg")
    return volumes


def _ratios() -> dict[str, Region]:
    """Return simplified name → `Region` for columns of ratios and counts that FreeSurfer writes.

    They are the columns in `_RATIOS`, such as ``BrainSegVol-to-eTIV`` and ``SurfaceHoles``. A name
    is simplified by `_folded`: lower case, without separators.
    """
    return {key: Region(name, "other", "aseg") for key, name in _by_fold(_RATIOS).items()}


_CORTEX = _cortex()
_ASEG: dict[str, Region] = {
    **_volumes(_SINGLE),
    **_volumes(_PAIRED, side="l", prefix="Left-"),
    **_volumes(_PAIRED, side="r", prefix="Right-"),
}
_OF_HEAD = {**_volumes(_TOTALS), **_ratios()}


@lru_cache(maxsize=20_000)
def region_of(column: str, *, side: str = "", measure: str = "") -> Region | None:
    """Return region and kind of measure that a column's name means; None for an unknown name.

    Known are the structures of FreeSurfer's aseg, the regions of the atlases of Desikan and
    Destrieux, and any name with a hemisphere and a measure, such as ``L_V1_ROI_thickness`` or
    ``lAmy_Vgm``. Hemispheres are ``lh``, ``left`` or ``L``, before or after the name; `&` and
    ``_and_`` mean the same; separators and case do not matter.

    Parameters
    ----------
    column : str
        Name of a column.
    side : {"", "lh", "rh"}
        Hemisphere of the whole table, for names without one.
    measure : str
        Measure of the whole table, such as ``thickness``, for names without one.
    """
    name = re.sub(r"^X(?=[0-9])", "", column.strip())  # R writes X3rd.Ventricle
    total = _OF_HEAD.get(_folded(name))
    if total is not None:
        return total
    voxels = _VOXELS_OF.fullmatch(name)
    if voxels is not None:
        region, _ = _cortical(voxels[3])
        return Region(f"{voxels[1]}-{voxels[2]}-{region}", "volume", "wmparc")
    words = _words_of(name)
    spelled, kind = _MEASURES.get(words.measure or measure.lower(), (measure, "other"))
    structure = _ASEG.get(words.side[:1] + _folded(words.structure))
    if structure is not None:
        if spelled in ("", "volume"):
            return structure
        return Region(f"{structure.name}_{spelled}", kind, "aseg")
    if spelled in ("Vgm", "Vwm", "Vcsf"):  # CAT12's names hold the hemisphere: lAmy
        return Region(_joined(words.side, words.structure, spelled), kind, "")
    core, atlas = _cortical(words.structure)
    hemisphere = words.side or side
    if hemisphere and (atlas or spelled):
        return Region(_joined(hemisphere, core, spelled), kind, atlas)
    return None


def _joined(*words: str) -> str:
    """Join the words of a region's name that are not empty, by underscores."""
    return "_".join(filter(None, words))


def _words_of(name: str) -> _Words:
    """Split a column's name into `_Words`: hemisphere ("lh" or "rh"), structure, and measure.

    The structure is spelled as in `name`, and the measure is in lower case; "" if absent.
    """
    side, structure = _side_of(name)
    measure = ""
    ending = _MEASURE.fullmatch(structure)
    if ending is not None and side[:1] + _folded(structure) not in _ASEG:
        structure = ending[1]
        measure = ending[2].lower()
    if not side:
        side, structure = _side_of(structure)
    first = structure[:1].lower()
    if not side and first in _SIDE and _folded(structure)[1:] in _CORTEX:
        side = _SIDE[first]  # CAT12 writes lbankssts
        structure = structure[1:]
    return _Words(side, structure, measure)


def _side_of(name: str) -> tuple[str, str]:
    """Return the hemisphere ("lh", "rh" or "") at either end of a column's name, and the rest."""
    before = _PREFIX.fullmatch(name)
    if before is not None:
        return _SIDE[before[1].lower()], before[2]
    behind = _SUFFIX.fullmatch(name)
    if behind is not None:
        return _SIDE[behind[2].lower()], behind[1]
    return "", name


def _cortical(name: str) -> tuple[str, str]:
    """Return canonical name and atlas of a region of the cortex; atlas "" for an unknown region.

    `name` is a spelling of the region, without hemisphere and measure.
    """
    region = _CORTEX.get(_folded(name))
    if region is not None:
        return region
    return re.sub(r"_*&_*", "_and_", name).replace(" ", "_"), ""
