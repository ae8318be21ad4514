"""The page: whole, self-contained, escaped, accessible, and the same every time."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scfl.errors import OutputError
from scfl.report.html import render_report, write_report
from scfl.report.sentences import describe_parameters
from scfl.study.conclusion import conclude
from scfl.study.records import load_study
from scfl.study.summary import summarise
from tests.fabricated_study import THREE, Entry, fabricate_study

HOSTILE = '<script>alert("x")</script>'
VOID = {"meta", "link", "br", "line", "path", "use", "image", "rect", "input"}


class Page(HTMLParser):
    """What a test asks of a page: its elements, ids, references and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fabricate_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_page_stands_alone(text: str, page: Page) -> None:
    assert not page.named("script")
    assert not [link for link in page.named("link") if link.get("href") != "data:,"]
    addresses = [
        value or ""
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name.endswith(("href", "src"))
    ]
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert len(text) < 600_000


def test_every_element_is_closed_and_every_id_unique_and_found(text: str, page: Page) -> None:
    assert page.open == []
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    assert used <= set(ids)


def test_sections_come_in_order(page: Page) -> None:
    order = ["curves", "ledger", "cost", "released", "data", "diverged", "made"]
    assert [section.get("id") for section in page.named("section")] == order


def test_the_conclusions_open_the_page(folder: Path, page: Page) -> None:
    for sentence in conclude(summarise(load_study(folder))):
        assert sentence in page.text.replace("\u00a0", " ")


def test_pictures_and_tables_speak_to_those_who_do_not_see_them(page: Page) -> None:
    assert len(page.named("figure")) == 4 + 2 * 3 + 2 + 2
    for svg in page.named("svg"):
        assert svg.get("aria-label") or svg.get("aria-hidden") == "true"
    assert all(head.get("scope") for head in page.named("th"))
    assert len(page.named("caption")) == len(page.named("table")) == 5


def test_the_summary_has_every_label_with_its_numbers(folder: Path, page: Page) -> None:
    summary = summarise(load_study(folder))
    for label in summary.labels:
        assert label.accuracy is not None
        assert f"{label.accuracy.median:.3f}" in page.text
    assert "not reached" in page.text
    assert "1 of 5" in page.text


def test_who_never_arrives_in_time_is_named(page: Page) -> None:
    assert "Never in time: client 4." in page.text
    assert "In an average round 20 of 20 clients arrived in time;" in page.text


def test_releases_are_told_without_comfort(page: Page) -> None:
    assert "All clients sent 150 gradients: not covered by any guarantee." in page.text


def test_what_diverged_is_listed_with_its_reason(page: Page) -> None:
    assert "fl-pma-0.2, seed 3" in page.text
    assert "Stopped after 37 rounds. The learning rate 2 is too high" in page.text


def test_how_it_was_made_is_said(page: Page) -> None:
    for words in ("0123456789abcdef", "numpy 2.4.6", "gram-shortcut", '"random-features": 400'):
        assert words in page.text
    assert "learning rate 2, sigma 0" in page.text


def test_parameters_are_listed_once_and_differences_shown(folder: Path) -> None:
    run = load_study(folder).runs[0]
    one = {"learning_rate": 0.5, "batches": {"subsets": 5, "rows": None}, "make_up": True}
    other = {**one, "learning_rate": 1.0, "make_up": False}
    runs = [replace(run, parameters=parameters) for parameters in (one, other, one)]
    assert describe_parameters(runs) == "learning rate 0.5 or 1, subsets 5, make up on or off"
    assert describe_parameters([replace(run, parameters={})]) == "none"


def test_the_same_folder_gives_the_same_page(folder: Path, text: str) -> None:
    assert render_report(load_study(folder)) == text


def test_a_target_and_a_reference_can_be_asked_for(folder: Path) -> None:
    page = Page(render_report(load_study(folder), target=0.8, reference="scfl"))
    assert "Time to accuracy 0.80" in page.text
    assert "The time of scfl divided by" in page.text


def test_names_from_outside_are_text(tmp_path: Path) -> None:
    entry = Entry("a & b <i>", "scfl", coded_rows=30)
    names = [HOSTILE, *map(str, range(4))]
    folder = fabricate_study(
        tmp_path, entries=[entry], clients=5, rounds=12, names=names, seeds=[0], diverged=[]
    )
    text = write_report(folder).read_text(encoding="utf-8")
    page = Page(text)
    assert not page.named("script")
    assert not page.named("i") or all(
        "style" in each or "class" in each for each in page.named("i")
    )
    assert HOSTILE in page.text
    assert "a & b <i> reaches accuracy" in page.text


def test_an_interrupted_study_says_so(tmp_path: Path) -> None:
    folder = fabricate_study(tmp_path, rounds=12, seeds=[0], status="running")
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert "what follows rests on the 3 runs that finished" in page.text
    assert "This is one seed" in page.text


def test_a_study_without_runs_has_a_page(tmp_path: Path) -> None:
    folder = fabricate_study(tmp_path, entries=(), status="running")
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert "No run is finished yet" in page.text
    assert [section.get("id") for section in page.named("section")] == ["made"]


def test_a_study_where_all_diverged_has_a_page(tmp_path: Path) -> None:
    lost = [(entry.label, 0) for entry in THREE]
    folder = fabricate_study(tmp_path, rounds=24, seeds=[0], diverged=lost)
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert "Every run diverged, so no method can be compared" in page.text
    assert "3 of 3 runs diverged" in page.text


def test_a_regression_has_no_accuracy_and_no_classes(tmp_path: Path) -> None:
    folder = fabricate_study(tmp_path, rounds=24, seeds=[0], task="regression", diverged=[])
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert "Final loss" in page.text
    assert "ccuracy" not in page.text.replace("Accuracy and loss against virtual time", "")
    assert "of the 10 classes" not in page.text
    assert len(page.named("figure")) == 2 + 2 * 3 + 2 + 1


def test_a_method_that_asks_nobody_has_a_sentence_and_no_picture(tmp_path: Path) -> None:
    entry = Entry("alone", "dp-cfl", wait="server", coded_rows=60, sigma=0.5)
    folder = fabricate_study(tmp_path, entries=[entry], rounds=24, seeds=[0])
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert "No client is asked for anything in the rounds" in page.text
    assert not [svg for svg in page.named("svg") if "each of 20 clients, fastest" in str(svg)]


def test_a_crowd_is_cut_to_its_ends_and_the_page_stays_small(tmp_path: Path) -> None:
    folder = fabricate_study(tmp_path, entries=THREE[:1], clients=300, rounds=900, seeds=[0])
    text = write_report(folder).read_text(encoding="utf-8")
    page = Page(text)
    assert "The 10 clients heard least and the 10 heard most, of 300." in page.text
    assert "A cell holds up to 3 rounds and 2 clients" in page.text
    # One row each in the summary and the scores, and the two ends of the crowd.
    assert len([head for head in page.named("th") if head.get("scope") == "row"]) == 1 + 1 + 20
    assert len(text) < 500_000


def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    folder = fabricate_study(tmp_path, entries=(), status="running")
    (folder / "report.html.part").mkdir()
    with pytest.raises(OutputError, match=r"report\.html cannot be written"):
        write_report(folder)
