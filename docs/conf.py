"""The site: Markdown pages of the repository, a gallery of examples, and the reference of all public names."""

from __future__ import annotations

import os
import warnings
from importlib import import_module, metadata
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ["MPLBACKEND"] = "Agg"
warnings.filterwarnings("ignore", category=FutureWarning)

project = "neurocontrast"
release = version = metadata.version("neurocontrast")
author = copyright = "neurocontrast developers"
root_doc = "docs/index"
# The source folder is the repository, so that pages link to each other as they do there.
include_patterns = [
    "docs/**",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "pipelines/README.md",
    "sample/*.md",
    "sample/*/*.md",
    "neurocontrast/weights/*/README.md",
    "weights/*/*/README.md",
]
exclude_patterns = ["docs/_build/**", "docs/gallery/**/*.py.md5", "docs/templates/**"]
HERE = Path(__file__).parent
templates_path = [
    str(HERE / "templates")
]  # autosummary takes a relative one from the source folder
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]

myst_heading_anchors = 4
suppress_warnings = ["myst.header", "config.cache"]

default_role = "py:obj"  # `Names` in docstrings lead to their pages
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

EXAMPLES = [
    "plot_first_report.py",
    "plot_bids_tree.py",
    "plot_sample_cohort.py",
    "plot_leave_site_out.py",
    "plot_reading_a_report.py",
    "plot_kernels.py",
    "plot_alignment_and_uniformity.py",
    "plot_own_loss.py",
    "plot_monai_transforms.py",
    "plot_own_estimator.py",
    "plot_scan_embedder.py",
    "plot_new_scan.py",
    "plot_natural_images.py",
    "*",
]
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": str(HERE / "gallery"),
    "within_subsection_order": ExplicitOrder(EXAMPLES),
    "abort_on_example_error": True,
    "plot_gallery": "True",
    "remove_config_comments": True,
    "min_reported_time": 5,
    "show_memory": False,
    "write_computation_times": False,  # a page that loads scripts from elsewhere
    "download_all_examples": False,
    "show_signature": False,
    "capture_repr": (),
}

API = {
    "neurocontrast": "The path from scans to a report: what the commands call, too.",
    "neurocontrast.kernels": "Weights between people, from their metadata.",
    "neurocontrast.losses": "Objectives of two views of a batch and its metadata.",
    "neurocontrast.data": "Tables of scans, and scans as a ``monai.data.Dataset``.",
    "neurocontrast.transforms": "Preprocessing and random views, as MONAI transforms.",
    "neurocontrast.natural": "Natural images: their data set, and random views of them.",
    "neurocontrast.encoders": "Networks, linear encoders, and what features are read from them.",
    "neurocontrast.training": "Settings of pretraining and fine-tuning, the loop, and what it measures.",
    "neurocontrast.embedding": "Features of scans in a table, and an encoder as a scikit-learn transformer.",
    "neurocontrast.evaluation": "Splitters, transformers and studies that keep sites and people apart.",
    "neurocontrast.explanation": "Maps of the brain for a linear score.",
    "neurocontrast.datasets": "Real brains that come with the repository.",
    "neurocontrast.weights": "Encoders that come with the package.",
}
"""Public modules, whose ``__all__`` make the reference."""


def write_api(path: Path) -> None:
    """Write the page that lists all public names, from which autosummary makes one page each."""
    lines = ["API reference", "=============", ""]
    for module, description in API.items():
        names = [f"   {module}.{name}" for name in sorted(import_module(module).__all__)]
        lines += [module, "-" * len(module), "", description, ""]
        lines += [".. autosummary::", "   :toctree: reference", "   :nosignatures:", "", *names, ""]
    text = "\n".join(lines)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


write_api(HERE / "api.rst")

html_theme = "pydata_sphinx_theme"
html_title = f"neurocontrast {release}"
html_static_path: list[str] = ["static"]
html_extra_path = ["root"]  # leads from the top of the site to docs/
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 4,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_context = {"default_mode": "auto"}
# Pages that hold no others have nothing to navigate beside them.
html_sidebars = {
    page: [] for page in ("docs/*", "README", "CHANGELOG", "CONTRIBUTING", "SECURITY", "*/README")
}
