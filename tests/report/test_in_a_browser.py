"""The pages in a real browser: no error, no sideways scroll, figures drawn, controls that work, nobody shut out."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.random_checks import must_fail
from tempering.lab.report import compare_page, compare_runs, make_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make install")
axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed: make install")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")

WIDTHS = (420, 1000, 1400)


@pytest.fixture(scope="module")
def own(own_run) -> Path:
    """The folder of a tiny fit of four parameters, with its report."""
    make_report(own_run)
    return own_run


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        made = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@contextmanager
def opened(browser, path: Path, width: int = 1400, theme: str = "light"):
    """A page with the list of everything that it complained of."""
    how = {"color_scheme": theme, "reduced_motion": "reduce", "accept_downloads": True}
    context = browser.new_context(viewport={"width": width, "height": 900}, **how)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(request.url))
    page.goto(path.resolve().as_uri())
    yield page, complaints
    context.close()


@pytest.fixture(scope="module")
def desk(browser, own):
    with opened(browser, own / "report.html") as (page, complaints):
        yield page
        assert not complaints


def frame_of(page) -> dict[str, float]:
    """Where the large picture is, in view."""
    frame = page.query_selector("[data-large] rect.frame")
    frame.scroll_into_view_if_needed()
    return frame.bounding_box()


def check_fits(page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(50)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def check_accessible(page) -> None:
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document)")["violations"]
    serious = [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
    ]
    assert not serious, serious


def test_no_page_scrolls_sideways_or_complains(browser, own):
    for theme in ("light", "dark"):
        with opened(browser, own / "report.html", theme=theme) as (page, complaints):
            for width in WIDTHS:
                check_fits(page, width)
                page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
                check_fits(page, width)
            assert not complaints


def is_whole(page, selector: str) -> bool:
    """Whether an element shows all that it holds without scrolling sideways."""
    return page.eval_on_selector(selector, "(element) => element.scrollWidth <= element.clientWidth")


@pytest.mark.slow
def test_the_table_of_parameters_is_seen_whole(browser, own):
    with opened(browser, own / "report.html") as (page, _):
        for width in (420, 640, 1000, 1200, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            assert is_whole(page, "div:has(> table.parameters)"), width
        page.set_viewport_size({"width": 1000, "height": 900})
        page.add_style_tag(content=".parameters td { padding-left: 9rem !important; }")
        assert not is_whole(page, "div:has(> table.parameters)"), "a table that is too wide would be found"


def test_a_broken_page_would_be_found(browser, tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text(
        "<html><body><div style='width:2000px'>x</div><img src='missing.png'><script>x.y()</script></body></html>"
    )
    with opened(browser, broken) as (page, complaints):
        must_fail(check_fits, page, 420)
        must_fail(check_accessible, page)
        page.wait_for_timeout(100)
        assert any("x is not defined" in words for words in complaints) and any("missing.png" in c for c in complaints)


def test_every_figure_is_drawn(desk):
    desk.set_viewport_size({"width": 1400, "height": 900})
    figures = desk.query_selector_all("figure.drawn svg")
    assert len(figures) >= 5
    for figure in figures:
        box = figure.bounding_box()
        assert box["width"] > 200 and box["height"] > 80 and figure.query_selector_all("path")
    assert desk.query_selector("[data-corner] svg").get_attribute("data-panels") == "10"
    assert len(desk.query_selector_all("[data-corner] image")) == 6
    assert all(row.bounding_box()["width"] > 50 for row in desk.query_selector_all(".parameters svg"))


def test_parameters_are_chosen_and_panels_enlarged(desk):
    panels = lambda: desk.query_selector("[data-corner] svg").get_attribute("data-panels")  # noqa: E731
    desk.get_by_role("button", name="shift[0]", exact=True).click()
    assert panels() == "6"
    desk.get_by_role("button", name="shift[0]", exact=True).click()
    before = desk.query_selector("[data-corner] image").get_attribute("href")
    desk.get_by_role("button", name="As drawn").click()
    assert desk.query_selector("[data-corner] image").get_attribute("href") != before
    desk.get_by_role("button", name="By weight").click()
    desk.get_by_role("button", name="noise against gain; enlarge").hover()
    assert "gain = " in desk.text_content("[data-reading]")
    desk.get_by_role("button", name="noise against gain; enlarge").click()
    assert desk.text_content("[data-detail-title]") == "noise against gain"

    def ends() -> tuple[float, float]:
        large = desk.query_selector("[data-large] svg")
        return float(large.get_attribute("data-low")), float(large.get_attribute("data-high"))

    whole = ends()
    desk.get_by_role("button", name="Zoom in").click()
    assert whole[0] < ends()[0] < ends()[1] < whole[1]
    desk.get_by_role("button", name="Zoom out").click()
    desk.get_by_role("button", name="All", exact=True).click()
    assert ends() == whole
    box = frame_of(desk)
    desk.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.25 * box["height"])
    desk.mouse.down()
    desk.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 0.75 * box["height"], steps=4)
    desk.mouse.up()
    low, high = ends()
    assert low == pytest.approx(0.75 * whole[0] + 0.25 * whole[1], rel=0.05, abs=0.05 * (whole[1] - whole[0]))
    assert high - low == pytest.approx(0.5 * (whole[1] - whole[0]), rel=0.1)
    desk.query_selector("[data-large] svg").dblclick()
    assert ends() == whole
    desk.get_by_role("button", name="Close").click()
    assert not desk.query_selector("[data-detail]").is_visible()
    marginal = desk.get_by_role("button", name="Marginal of gain; enlarge")
    marginal.focus()
    desk.keyboard.press("Enter")
    assert desk.text_content("[data-detail-title]") == "Marginal of gain"


@pytest.mark.slow
def test_the_nearest_draw_is_read_out(desk):
    desk.get_by_role("button", name="noise against gain; enlarge").click()
    found = ""
    box = frame_of(desk)
    for step in range(1, 30):
        desk.mouse.move(box["x"] + step / 30 * box["width"], box["y"] + (0.6 + 0.3 * (step % 2)) * box["height"])
        found = desk.text_content("[data-reading]")
        if found.startswith("draw "):
            break
    assert "gain = " in found and "log density = " in found and "weight = " in found


@pytest.mark.slow
def test_figures_are_saved_and_text_is_copied(desk):
    for button in (desk.get_by_role("button", name="This view as SVG"), desk.locator("#figure-ladder [data-svg]")):
        with desk.expect_download() as download:
            button.click()
        text = Path(download.value.path()).read_text(encoding="utf-8")
        assert text.startswith("<svg") and "var(" not in text and download.value.suggested_filename.endswith(".svg")
    with desk.expect_download() as download:
        desk.get_by_role("link", name="Corner plot as PDF").click()
    assert Path(download.value.path()).read_bytes().startswith(b"%PDF")
    copy = desk.locator("[data-copy]").first
    copy.click()
    playwright.expect(copy).to_have_text("Copied")


@pytest.mark.slow
def test_light_and_dark_change_the_figures_too(desk):
    def colours() -> list[str]:
        script = "(place) => getComputedStyle(document.querySelector(place))"
        of = {"body": "backgroundColor", "#figure-ladder text": "fill"}
        return [desk.evaluate(f"{script}.{name}", place) for place, name in of.items()]

    light = colours()
    desk.get_by_role("button", name="Change between light and dark").click()
    dark = colours()
    assert light[0] == "rgb(255, 255, 255)" and dark[0] == "rgb(21, 24, 28)" and light[1] != dark[1]
    check_accessible(desk)
    desk.get_by_role("button", name="Change between light and dark").click()
    assert colours() == light


@pytest.mark.slow
def test_nobody_is_shut_out(browser, own, tmp_path):
    with opened(browser, own / "report.html", width=420) as (page, _):
        page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
        check_accessible(page)
    other = shutil.copytree(own, tmp_path / "other", ignore=shutil.ignore_patterns(".lock"))
    compared = compare_page(compare_runs([own, other]), tmp_path / "compare.html")
    with opened(browser, compared) as (page, complaints):
        for width in WIDTHS:
            check_fits(page, width)
            assert is_whole(page, "div:has(> table.compare)"), f"two runs stand side by side at {width} px"
        check_accessible(page)
        assert not complaints
