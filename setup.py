"""Build what pyproject.toml cannot say: the recipes in the wheel, and README with absolute links."""

import re
import shutil
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"]


class BuildWithRecipes(build_py):
    """Copy ``configs/`` into the package of a wheel; an editable install reads the checkout's own."""

    def run(self) -> None:
        """Build the package, then add the recipes."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "neurocontrast" / "configs"
            shutil.copytree(HERE / "configs", target, dirs_exist_ok=True)


def absolute(link: re.Match[str]) -> str:
    """Return a link, or a picture, of Markdown with the address of its file in the repository."""
    kind = "raw" if link["label"].startswith("!") else "blob"
    return f"{link['label']}({REPOSITORY}/{kind}/main/{link['path']})"


README = (HERE / "README.md").read_text(encoding="utf-8")
RELATIVE_LINK = r"(?P<label>!?\[[^]]*\])\((?!https?://|#)(?P<path>[^)]+)\)"
setup(
    cmdclass={"build_py": BuildWithRecipes},
    long_description=re.sub(RELATIVE_LINK, absolute, README),
    long_description_content_type="text/markdown",
)
