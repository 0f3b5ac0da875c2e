"""Every paper that is cited has an entry, in `docs/papers.md` and in its bibliography."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from croupier import __version__
from croupier.simulation import ALL_POLICIES
from croupier_papers import FIGURES

ROOT = Path(__file__).parent.parent
KEY = r"\[([A-Z][A-Za-z+]{0,11}\d\d)\]"
PAPERS = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
FOLDERS = ("docs", "src", "tests", "bench", "examples", "clients")
READ = {".md", ".py", ".toml", ".js", ".html"}
BIB = (ROOT / "docs/papers.bib").read_text(encoding="utf-8")
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def texts() -> Iterator[tuple[str, str]]:
    """What people read: documents, code, tests and examples, by their paths."""
    folders = (path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.suffix in READ)
    for path in (*ROOT.glob("*.md"), *folders):
        if path != Path(__file__):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def entries() -> dict[str, str]:
    """The reference of every key in papers.md, on one line."""
    text = re.sub(r"\n(?=\S)(?![|*#-])", " ", PAPERS)
    found = re.findall(rf"^\*\*{KEY}\*\* (.*)$", text, re.MULTILINE)
    found += re.findall(rf"^\| {KEY} \| (.*?\. \*.*?\*.*?) \|", text, re.MULTILINE)
    assert len(found) == len(dict(found)), "a key has two entries"
    return dict(found)


def records() -> dict[str, dict[str, str]]:
    """The fields of every key in papers.bib."""
    return {
        key: dict(re.findall(r"^  (\w+) = \{+(.*?)\}+,$", body, re.MULTILINE))
        for key, body in re.findall(r"^@\w+\{(\S+),\n(.*?)^\}", BIB, re.MULTILINE | re.DOTALL)
    }


def test_every_key_that_is_cited_has_an_entry() -> None:
    cited = {(key, path) for path, text in texts() for key in re.findall(KEY, text)}
    assert len({key for key, _ in cited}) >= 7
    assert sorted((key, path) for key, path in cited if key not in entries()) == []


def test_every_page_that_cites_leads_to_authors_and_titles() -> None:
    pages = {path: text for path, text in texts() if path.endswith(".md") and re.search(KEY, text)}
    assert len(pages) >= 10
    leads = re.compile(r"\]\((\.\./)*(docs/)?papers\.md\)")
    assert [path for path, text in pages.items() if path != "docs/papers.md" and not leads.search(text)] == []


def test_works_are_cited_by_key_and_not_by_names_and_years() -> None:
    dated = re.compile(r"\b[A-Z][a-z]+ (?:18|19|20)\d\d\b")
    families = [[name.split()[-1] for name in fields["author"].split(" and ")] for fields in records().values()]
    pairs = {" and ".join(names[-2:]) for names in families if len(names) > 1}
    found = []
    for path, text in texts():
        if path not in ("docs/papers.md", "src/croupier/references.py"):
            line = " ".join(text.split())
            found += [(path, words) for words in dated.findall(line)]
            found += [(path, pair) for pair in pairs if re.search(rf"\b{pair}\b(?! \[)", line)]
    assert found == []


def test_the_bibliography_has_the_same_papers() -> None:
    bib = records()
    assert set(bib) == set(entries())
    for key, reference in entries().items():
        authors, title = re.match(r"(.*?)\. \*(.*?)\.\*", reference).groups()
        assert bib[key]["author"].split(" and ") == authors.split(", "), key
        assert bib[key]["title"] == title, key
        assert bib[key]["year"] in reference, key
        arxiv = re.findall(r"arXiv:(\d{4}\.\d{4,5})\]", reference)
        assert arxiv == [bib[key][field] for field in ("eprint",) if field in bib[key]], key


def test_a_key_ends_with_the_year() -> None:
    assert [key for key, fields in records().items() if key[-2:] != fields["year"][-2:]] == []


def test_policies_and_figures_in_the_page_exist() -> None:
    figures = re.findall(r"croupier reproduce ([\w-]+)", PAPERS)
    assert figures
    assert set(figures) <= set(FIGURES)
    cells = re.findall(r"polic(?:y|ies) ((?:`[\w-]+`(?:, | and )?)+)", PAPERS)
    named = {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)}
    assert len(named) >= 9
    assert named <= set(ALL_POLICIES)


def test_papers_have_names_not_numbers() -> None:
    numbered = re.compile(r"(?<![\w.,])00[0-4](?='s\b| (?:Alg|Thm|Theorem|Lemma|Cor|Figure|Table|App|section)\b)")
    assert [path for path, text in texts() if numbered.search(text)] == []


def references() -> list[dict[str, str]]:
    """What CITATION.cff says of each paper, its authors as papers.bib writes them."""
    found = []
    for body in CITATION.partition("\nreferences:\n")[2].split("  - type: ")[1:]:
        names = re.findall(r"- \{family-names: (.*), given-names: (.*)\}", body)
        fields = dict(re.findall(r"^    (title|year|url): (.*)$", body, re.MULTILINE))
        found.append(fields | {"author": " and ".join(f"{given} {family}" for family, given in names)})
    return found


def test_the_citation_names_this_version_and_the_five_papers() -> None:
    assert f"\nversion: {__version__}\n" in CITATION
    known = {fields["title"]: fields for fields in records().values()}
    assert len(references()) == 5
    for paper in references():
        assert paper == {key: known[paper["title"]][key] for key in ("author", "title", "year", "url")}


def test_the_package_links_the_same_five_papers() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert [*urls.values()] == [paper["url"] for paper in references()]
    assert [label for label in urls if len(label) > 32] == [], "an index takes no longer label"
