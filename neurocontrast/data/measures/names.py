"""Names of regional measures: one spelling for what programs spell differently, what each measure is, and its unit."""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["thickness", "volume", "area", "other"]
UNITS: dict[Kind, str] = {"thickness": "mm", "volume": "mm³", "area": "mm²", "other": ""}
"""Unit of every kind of measure in a `MeasuresTable`."""
HEAD_SIZE = "EstimatedTotalIntraCranialVol"
MM3_PER_ML = 1000.0

_DESIKAN = """bankssts caudalanteriorcingulate caudalmiddlefrontal cuneus entorhinal frontalpole fusiform
inferiorparietal inferiortemporal insula isthmuscingulate lateraloccipital lateralorbitofrontal lingual
medialorbitofrontal middletemporal paracentral parahippocampal parsopercularis parsorbitalis parstriangularis
pericalcarine postcentral posteriorcingulate precentral precuneus rostralanteriorcingulate rostralmiddlefrontal
superiorfrontal superiorparietal superiortemporal supramarginal temporalpole transversetemporal"""
_DESTRIEUX = """G_and_S_frontomargin G_and_S_occipital_inf G_and_S_paracentral G_and_S_subcentral
G_and_S_transv_frontopol G_and_S_cingul-Ant G_and_S_cingul-Mid-Ant G_and_S_cingul-Mid-Post G_cingul-Post-dorsal
G_cingul-Post-ventral G_cuneus G_front_inf-Opercular G_front_inf-Orbital G_front_inf-Triangul G_front_middle
G_front_sup G_Ins_lg_and_S_cent_ins G_insular_short G_occipital_middle G_occipital_sup G_oc-temp_lat-fusifor
G_oc-temp_med-Lingual G_oc-temp_med-Parahip G_orbital G_pariet_inf-Angular G_pariet_inf-Supramar G_parietal_sup
G_postcentral G_precentral G_precuneus G_rectus G_subcallosal G_temp_sup-G_T_transv G_temp_sup-Lateral
G_temp_sup-Plan_polar G_temp_sup-Plan_tempo G_temporal_inf G_temporal_middle Lat_Fis-ant-Horizont
Lat_Fis-ant-Vertical Lat_Fis-post Pole_occipital Pole_temporal S_calcarine S_central S_cingul-Marginalis
S_circular_insula_ant S_circular_insula_inf S_circular_insula_sup S_collat_transv_ant S_collat_transv_post S_front_inf
S_front_middle S_front_sup S_interm_prim-Jensen S_intrapariet_and_P_trans S_oc_middle_and_Lunatus
S_oc_sup_and_transversal S_occipital_ant S_oc-temp_lat S_oc-temp_med_and_Lingual S_orbital_lateral
S_orbital_med-olfact S_orbital-H_Shaped S_parieto_occipital S_pericallosal S_postcentral S_precentral-inf-part
S_precentral-sup-part S_suborbital S_subparietal S_temporal_inf S_temporal_sup S_temporal_transverse"""
_OF_HEMISPHERE = "MeanThickness WhiteSurfArea PialSurfArea NumVert"
_PAIRED = """Lateral-Ventricle Inf-Lat-Vent Cerebellum-White-Matter Cerebellum-Cortex Thalamus-Proper Caudate Putamen
Pallidum Hippocampus Amygdala Accumbens-area VentralDC vessel choroid-plexus WM-hypointensities non-WM-hypointensities
Cerebral-White-Matter Cerebral-Cortex"""
_SINGLE = """3rd-Ventricle 4th-Ventricle 5th-Ventricle Brain-Stem CSF WM-hypointensities non-WM-hypointensities
Optic-Chiasm CC_Posterior CC_Mid_Posterior CC_Central CC_Mid_Anterior CC_Anterior"""
_TOTALS = """BrainSegVol BrainSegVolNotVent BrainSegVolNotVentSurf lhCortexVol rhCortexVol CortexVol
lhCerebralWhiteMatterVol rhCerebralWhiteMatterVol CerebralWhiteMatterVol SubCortGrayVol TotalGrayVol SupraTentorialVol
SupraTentorialVolNotVent SupraTentorialVolNotVentVox MaskVol VentricleChoroidVol EstimatedTotalIntraCranialVol"""
_RATIOS = "BrainSegVol-to-eTIV MaskVol-to-eTIV lhSurfaceHoles rhSurfaceHoles SurfaceHoles"
_OTHER_SPELLINGS = {
    "EstimatedTotalIntraCranialVol": (
        "eTIV",
        "EstimatedTotalIntraCranial",
        "ICV",
        "IntraCranialVol",
    ),
    "Thalamus-Proper": (
        "Thalamus",
        "thal",
    ),  # FreeSurfer 7 dropped "Proper" from the name of the same label
    "Accumbens-area": ("Accumbens", "accumb"),  # and ENIGMA shortens: Laccumb, Lhippo
    **{
        "Lateral-Ventricle": ("LatVent",),
        "Caudate": ("caud",),
        "Putamen": ("put",),
        "Pallidum": ("pal",),
    },
    **{"Hippocampus": ("hippo",), "Amygdala": ("amyg",)},
    "lhCerebralWhiteMatterVol": ("lhCorticalWhiteMatterVol",),  # FreeSurfer 5
    "rhCerebralWhiteMatterVol": ("rhCorticalWhiteMatterVol",),
    "CerebralWhiteMatterVol": ("CorticalWhiteMatterVol",),
}
_MEASURES: dict[str, tuple[str, Kind]] = {
    **dict.fromkeys(("thickness", "thick", "thickavg"), ("thickness", "thickness")),
    **dict.fromkeys(("volume", "vol", "grayvol"), ("volume", "volume")),
    **dict.fromkeys(("area", "surfarea", "surfavg"), ("area", "area")),
    **{
        name: (name, "other")
        for name in ("thicknessstd", "meancurv", "gauscurv", "foldind", "curvind")
    },
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
    """What a column measures: its one spelling, the kind of measure, and FreeSurfer's name of the atlas or ""."""

    name: str
    kind: Kind
    atlas: str


def _folded(name: str) -> str:
    """Return a name without what programs change: case, separators, and `&` or `and` between two parts."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"&|(?<=[_. -])and(?=[_. -])", "", name.lower()))


def _by_fold(names: str, start: str = "") -> dict[str, str]:
    return {
        start + _folded(other): name
        for name in names.split()
        for other in (name, *_OTHER_SPELLINGS.get(name, ()))
    }


_CORTEX = {
    **{key: (name, "") for key, name in _by_fold(_OF_HEMISPHERE).items()},
    **{key: (name, "aparc") for key, name in _by_fold(_DESIKAN).items()},
    **{key: (name, "aparc.a2009s") for key, name in _by_fold(_DESTRIEUX).items()},
}
_ASEG: dict[str, Region] = {
    **{key: Region(name, "volume", "aseg") for key, name in _by_fold(_SINGLE).items()},
    **{
        key: Region(f"Left-{name}", "volume", "aseg")
        for key, name in _by_fold(_PAIRED, "l").items()
    },
    **{
        key: Region(f"Right-{name}", "volume", "aseg")
        for key, name in _by_fold(_PAIRED, "r").items()
    },
}
_OF_HEAD = {
    **{key: Region(name, "volume", "aseg") for key, name in _by_fold(_TOTALS).items()},
    **{key: Region(name, "other", "aseg") for key, name in _by_fold(_RATIOS).items()},
}


@lru_cache(maxsize=20_000)
def region_of(column: str, *, side: str = "", measure: str = "") -> Region | None:
    """Return what a column measures, or None if no known region has its name.

    Known are the structures of FreeSurfer's aseg, the regions of the atlases of Desikan and
    Destrieux, and any name with a hemisphere and a measure, such as ``L_V1_ROI_thickness`` or
    ``lAmy_Vgm``. Hemispheres are ``lh``, ``left`` or ``L``, before or after the name; `&` and
    ``_and_`` mean the same; separators and case do not matter. `side` and `measure` are those of
    the whole table, for names that lack them.
    """
    text = re.sub(r"^X(?=[0-9])", "", column.strip())  # R writes X3rd.Ventricle
    if found := _OF_HEAD.get(_folded(text)):
        return found
    if voxels := _VOXELS_OF.fullmatch(text):
        return Region(f"{voxels[1]}-{voxels[2]}-{_cortical(voxels[3])[0]}", "volume", "wmparc")
    own_side, text = _side_of(text)
    named = None if own_side[:1] + _folded(text) in _ASEG else _MEASURE.fullmatch(text)
    text, own_measure = (named[1], named[2].lower()) if named else (text, "")
    spelled, kind = _MEASURES.get(own_measure or measure.lower(), (measure, "other"))
    own_side, text = (own_side, text) if own_side else _side_of(text)
    if (
        not own_side and text[:1].lower() in _SIDE and _folded(text)[1:] in _CORTEX
    ):  # CAT12 writes lbankssts
        own_side = _SIDE[text[0].lower()]
        text = text[1:]
    structure = _ASEG.get(own_side[:1] + _folded(text))
    if structure and spelled in ("", "volume"):
        return structure
    if structure:
        return Region(f"{structure.name}_{spelled}", kind, "aseg")
    if spelled in ("Vgm", "Vwm", "Vcsf"):  # CAT12's names hold the hemisphere: lAmy
        return Region("_".join(filter(None, (own_side, text, spelled))), kind, "")
    core, atlas = _cortical(text)
    if (own_side or side) and (atlas or spelled):
        return Region("_".join(filter(None, (own_side or side, core, spelled))), kind, atlas)
    return None


def _side_of(text: str) -> tuple[str, str]:
    """Return the hemisphere that a name begins or ends with, or "", and the rest."""
    if before := _PREFIX.fullmatch(text):
        return _SIDE[before[1].lower()], before[2]
    if behind := _SUFFIX.fullmatch(text):
        return _SIDE[behind[2].lower()], behind[1]
    return "", text


def _cortical(text: str) -> tuple[str, str]:
    """Return the spelling of a region of the cortex, and its atlas."""
    return _CORTEX.get(_folded(text), (re.sub(r"_*&_*", "_and_", text).replace(" ", "_"), ""))
