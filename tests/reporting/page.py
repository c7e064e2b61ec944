"""A page as a browser would read it, by the standard library's parser."""

import base64
from html.parser import HTMLParser

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1] == tag, f"</{tag}> closes <{self._open[-1]}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.texts.append(data)
        if self._open and {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        """All text on one line."""
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of every tag of a name."""
        return [attributes for name, attributes in self.tags if name == tag]

    def headings(self) -> list[str]:
        """Names of the sections, in order."""
        return [attributes["id"] for attributes in self.all("section")]

    def images(self) -> list[str]:
        """Every image as the SVG text that it holds."""
        prefix = "data:image/svg+xml;base64,"
        return [
            base64.b64decode(image["src"].removeprefix(prefix)).decode()
            for image in self.all("img")
        ]
