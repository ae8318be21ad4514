"""What the pictures show, as far as their data and their markup tell."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from scfl.report import ledger_figures
from scfl.report.canvas import add_axes, render_svg, save_picture
from scfl.report.colours import STATUS_COLOURS, mix
from scfl.report.curve_figures import _log_ticks, collect_panels, curve_picture, draw_panel
from scfl.report.ledger_figures import (
    Rows,
    draw_rounds,
    draw_totals,
    mean_rows,
    short_names,
    status_picture,
)
from scfl.study.participation import Participation, add_up_ledger
from scfl.study.records import Study, load_study
from scfl.study.summary import CLOCKS, summarise
from tests.fabricated_study import fabricate_study
from tests.invented_study import Past, invent_study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return load_study(fabricate_study(tmp_path_factory.mktemp("study"), rounds=40, seeds=(0, 1)))


@pytest.fixture(scope="module")
def part(study: Study) -> Participation:
    return add_up_ledger(study.of("scfl")[0], 20)


def plot(figure: Figure) -> None:
    axes = add_axes(figure, left=30, right=5, bottom=20, top=5)
    axes.plot([0, 1.23456789], [0, 1], marker="o", label="0.123456")
    axes.fill_between([0, 1], [0, 1], hatch="//")
    axes.set_title("a < b, 0.123456")


def test_ids_carry_the_figures_name_and_every_reference_resolves() -> None:
    svg = render_svg(plot, name="first", description='about "it" & more', height=100)
    root = ET.fromstring(svg)  # noqa: S314 (our own)
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert ids
    assert len(ids) == len(set(ids))
    assert all(str(each).startswith("first-") for each in ids)
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    assert used == set(ids)
    assert root.get("aria-label") == 'about "it" & more'
    assert root.get("role") == "img"
    assert root.get("width") is None


def test_text_stays_text_and_numbers_in_it_stay_whole() -> None:
    svg = render_svg(plot, name="x", description="d", height=100)
    texts = [node.text for node in ET.fromstring(svg).iter() if node.tag.endswith("text")]  # noqa: S314
    assert "a < b, 0.123456" in texts
    assert not re.search(r'd="[^"]*\d\.\d{3}', svg)
    assert "DejaVu" not in svg
    assert "<style" not in svg


def test_a_picture_is_the_same_every_time(tmp_path: Path) -> None:
    one = render_svg(plot, name="x", description="d", height=100)
    assert one == render_svg(plot, name="x", description="d", height=100)
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        save_picture(plot, tmp_path / name, height=100, width=200)
    for kind in ("svg", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    # Outlines, because a picture cannot choose the reader's fonts.
    assert b"<text" not in (tmp_path / "a.svg").read_bytes()


def test_a_cell_has_the_colour_of_what_happened() -> None:
    counts = np.zeros((2, 3, 4), dtype=np.int64)
    counts[0, 0, 0] = counts[0, 1, 1] = counts[0, 2, 2] = counts[1, 0, 3] = 1
    counts[1, 1, [0, 1]] = 2
    picture = [[to_hex(cell) for cell in row] for row in status_picture(counts)]
    assert picture[0] == [STATUS_COLOURS[word] for word in ("arrived", "late", "absent")]
    assert picture[1][0] == picture[1][2] == STATUS_COLOURS["not-asked"]
    assert picture[1][1] == mix(STATUS_COLOURS["arrived"], STATUS_COLOURS["late"], 0.5)


def test_a_crowd_shares_rows_and_nobody_is_dropped() -> None:
    counts = np.zeros((1003, 2, 4), dtype=np.int64)
    counts[:, :, 0] = 1
    assert status_picture(counts).shape == (ledger_figures.MOST_ROWS, 2, 3)
    values = np.arange(1003.0)[:, None]
    mean = mean_rows(values, 100)
    assert mean.shape == (100, 1)
    assert mean[0] == pytest.approx(np.arange(10).mean())
    assert mean[-1, 0] <= 1002
    assert (np.diff(mean[:, 0]) > 0).all()
    assert mean_rows(values[:100], 100) is not values
    np.testing.assert_array_equal(mean_rows(values[:100], 100), values[:100])


def test_names_lose_what_all_share() -> None:
    assert short_names(["client 0", "client 17"]) == ("0", "17")
    assert short_names(["Airport of Rome", "Airport of New York"]) == ("Rome", "New York")
    assert short_names(["client 3"]) == ("client 3",)
    assert short_names(["same", "same"]) == ("same", "same")
    assert short_names(["a very long name indeed", "b"]) == ("a very long…", "b")


def test_pictures_and_bars_have_the_same_rows(part: Participation) -> None:
    rows = Rows(np.arange(20)[::-1], [f"c{client}" for client in range(20)])
    left, right = (
        ET.fromstring(draw(part, rows, name="x"))  # noqa: S314
        for draw in (draw_rounds, draw_totals)
    )
    assert left.get("viewBox") == right.get("viewBox")

    def heights(root: ET.Element) -> list[tuple[str, str]]:
        found = []
        for node in root.iter():
            if node.tag.endswith("text") and re.fullmatch(r"c\d+", node.text or ""):
                place = re.search(r"translate\([\d.-]+ ([\d.]+)\)", node.get("transform") or "")
                found.append((node.text or "", place[1] if place else node.get("y") or ""))
        return found

    assert [name for name, _ in heights(left)] == [f"c{client}" for client in rows.order]
    assert heights(left) == heights(right)


def test_rounds_are_one_small_image(part: Participation) -> None:
    rows = Rows(np.arange(20), [str(client) for client in range(20)])
    svg = draw_rounds(part, rows, name="x")
    assert svg.count("<image") == 1
    assert len(svg) < 30_000


def test_many_clients_are_drawn_as_outlines(part: Participation) -> None:
    many = 1000
    crowd = replace(
        part,
        counts=np.tile(part.counts, (50, 1, 1)),
        status_rounds=np.tile(part.status_rounds, (50, 1)),
        weight=np.tile(part.weight, 50),
        weight_lost=np.tile(part.weight_lost, 50),
    )
    rows = Rows(np.arange(many), [f"client {client}" for client in range(many)])
    svg = draw_totals(crowd, rows, name="x")
    assert "1,000" in svg
    assert len(svg) < 60_000


def test_the_target_is_in_sight_and_named(study: Study) -> None:
    summary = summarise(study)
    panels = collect_panels(study, summary, "accuracy", CLOCKS)
    assert panels is not None
    assert summary.target is not None
    assert panels.values[0] < summary.target.value < panels.values[1]
    counted, apart = (draw_panel(panels, clock, name=clock) for clock in CLOCKS)
    assert ">setup<" in counted
    assert ">setup<" not in apart
    for svg in (counted, apart):
        assert ">target<" in svg
        assert ">optimum<" in svg


def test_the_loss_panel_ignores_an_accuracy_target(study: Study) -> None:
    panels = collect_panels(study, summarise(study), "loss", CLOCKS)
    assert panels is not None
    assert panels.values[1] < 0.6
    assert ">target<" not in draw_panel(panels, "apart", name="x")


def test_clocks_share_an_axis_unless_it_would_squeeze_one() -> None:
    near = invent_study({"a": [Past([0, 100], [0.1, 0.9], setup_s=50)]})
    far = invent_study({"a": [Past([0, 100], [0.1, 0.9], setup_s=500)]})
    ends = []
    for study in (near, far):
        panels = collect_panels(study, summarise(study), "accuracy", CLOCKS)
        assert panels is not None
        ends.append(dict(panels.ends_s))
    assert ends == [{"counted": 150, "apart": 150}, {"counted": 600, "apart": 100}]


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.5), (1e-6, 3.0), (0.111, 0.112), (5e-4, 2.0)])
def test_a_logarithmic_axis_has_a_few_ticks_inside(low: float, high: float) -> None:
    ticks = _log_ticks(low, high)
    assert 2 <= len(ticks) <= 9
    assert all(low <= tick <= high * (1 + 1e-12) for tick in ticks)


@pytest.mark.parametrize("name", ["curves.png", "curves.svg"])
def test_the_readme_picture_is_written(study: Study, tmp_path: Path, name: str) -> None:
    path = curve_picture(study, tmp_path / name)
    assert path.stat().st_size > 10_000


def test_the_readme_picture_of_nothing_is_empty_axes(tmp_path: Path) -> None:
    assert curve_picture(invent_study({}), tmp_path / "x.svg").is_file()
