"""Every figure that any test writes is looked at: what it cites stands beneath it, within the picture."""

from typing import Any

import pytest

import croupier_papers
from croupier.references import KEY, cited


def checked(figure: Any) -> None:
    """A figure that was drawn ends with author and title of every paper that stands anywhere in it."""
    from matplotlib.text import Text

    texts = [text for text in figure.findobj(Text) if text.get_text()]
    said = " ".join(text.get_text() for text in texts)
    if not KEY.findall(said):
        return
    references = " ".join(str(reference) for reference in cited(said))
    (caption,) = [text for text in texts if " ".join(text.get_text().split()).endswith(references)]
    box = caption.get_window_extent()
    assert box.y0 >= 0, "the papers stand below the picture's edge"
    assert box.x0 >= 0, "a line is wider than the picture"
    assert box.x1 <= figure.bbox.width, "a line is wider than the picture"


@pytest.fixture(autouse=True)
def every_figure_ends_with_its_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    save = croupier_papers.save

    def looked_at(figure: Any, path: Any) -> Any:
        written = save(figure, path)
        checked(figure)
        return written

    monkeypatch.setattr(croupier_papers, "save", looked_at)
