"""The Containerfile fits the repository: engines that could build it are not on every machine."""

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def instructions() -> list[tuple[str, str]]:
    """Return each instruction of the Containerfile with its arguments, continued lines joined."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_every_file_that_is_copied_is_there_and_not_ignored():
    allowed = {
        line[1:] for line in (ROOT / ".containerignore").read_text().split() if line.startswith("!")
    }
    copied = [
        rest.split()[:-1]
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
    ]
    sources = {source for each in copied for source in each}
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)


def test_its_pins_are_those_of_the_constraints():
    pins = dict(re.findall(r"\b([a-zA-Z0-9_-]+)==([\w.]+)", (ROOT / "constraints.txt").read_text()))
    found = [
        pin
        for word, rest in instructions()
        if word == "RUN"
        for pin in re.findall(r"([\w-]+)==([\w.]+)", rest)
    ]
    assert found
    assert all(pins[name] == version for name, version in found)
    installed = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert "--constraint constraints.txt" in installed


def test_its_python_is_one_that_the_package_supports_and_its_user_is_not_root():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    images = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    wanted = tuple(map(int, re.search(r"(\d+)\.(\d+)", project["requires-python"]).groups()))
    assert {
        tuple(map(int, re.search(r":(\d+)\.(\d+)-slim$", image).groups())) for image in images
    } == {wanted}
    words = [word for word, _ in instructions()]
    assert dict(instructions())["USER"] not in ("root", "0")
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert json.loads(dict(instructions())["ENTRYPOINT"]) == list(project["scripts"])
