"""Make the links of README absolute for package indexes, which show it far from its files; the rest is in pyproject."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
REPOSITORY = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "urls"
]["Repository"]


def absolute(link: re.Match[str]) -> str:
    """Return a link, or a picture, of Markdown with the address of its file in the repository."""
    kind = "raw" if link["label"].startswith("!") else "blob"
    return f"{link['label']}({REPOSITORY}/{kind}/main/{link['path']})"


README = (HERE / "README.md").read_text(encoding="utf-8")
setup(
    long_description=re.sub(
        r"(?P<label>!?\[[^]]*\])\((?!https?://|#)(?P<path>[^)]+)\)", absolute, README
    ),
    long_description_content_type="text/markdown",
)
