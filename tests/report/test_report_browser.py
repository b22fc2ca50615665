"""The report in headless Chromium: charts drawn, no errors, nothing loaded, no sideways scrolling; wide and narrow,
light and dark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import fabric_states as fs
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from support import report_fixtures as made

from nearmetal.report.build import render
from nearmetal.report.collect import collect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]  # fmt: skip
WIDE, NARROW = (1440, 900), (390, 844)
VIEWS = [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light"), (NARROW, "dark")]

OVERFLOWING = """() => {
  const inside = (e) => { for (let p = e.parentElement; p; p = p.parentElement) {
    const s = getComputedStyle(p); if (s.overflowX === 'auto' || s.overflowX === 'scroll' || s.overflowX === 'hidden') return true; }
    return false; };
  return [...document.querySelectorAll('body *')].filter(e => !e.closest('.js-plotly-plot') && !e.closest('.vh, .skip')
    && e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 1 && !inside(e))
    .map(e => e.tagName + '.' + e.className + ': ' + e.textContent.slice(0, 60)).slice(0, 5);
}"""

CONTRAST = """() => {
  const lum = (c) => { const v = c.match(/[0-9.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
  const own = (e) => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const low = new Set();
  for (const e of document.querySelectorAll('body *')) {
    if (!own(e) || e.closest('.js-plotly-plot, .vh, .skip, script, style, noscript') || !e.getClientRects().length) continue;
    const s = getComputedStyle(e); if (getComputedStyle(e.parentElement).backgroundImage !== 'none') continue;
    const [a, b] = [lum(s.color), lum(ground(e))].sort((x, y) => y - x); const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) low.add(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2) + ': ' + e.textContent.trim().slice(0, 30));
  }
  return [...low].slice(0, 8);
}"""  # noqa: E501

FABRIC = """() => {
  const lum = (c) => { const v = c.match(/[0-9.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const faults = [];
  let shown = 0, lines = 0;
  for (const svg of document.querySelectorAll('svg.fabric')) {
    if (!svg.getClientRects().length) continue;
    shown++;
    const rects = [...svg.querySelectorAll('rect')].map(r => ({r: r.getBBox(), fill: getComputedStyle(r).fill})).filter(r => r.fill !== 'none');
    for (const line of svg.querySelectorAll('tspan')) {
      lines++;
      const box = line.closest('g').querySelector('rect').getBBox(), at = line.getStartPositionOfChar(0);
      if (at.x + line.getComputedTextLength() > box.x + box.width - 1 || at.y > box.y + box.height - 1) faults.push('out of its box: ' + line.textContent);
      const under = rects.filter(({r}) => r.x <= at.x && r.y <= at.y && r.x + r.width >= at.x && r.y + r.height >= at.y);
      const [a, b] = [lum(getComputedStyle(line).fill), lum(under[under.length - 1].fill)].sort((x, y) => y - x);
      if ((a + .05) / (b + .05) < 4.5) faults.push('contrast ' + ((a + .05) / (b + .05)).toFixed(2) + ': ' + line.textContent);
    }
  }
  return {shown, lines, faults: [...new Set(faults)].slice(0, 8)};
}"""  # noqa: E501


def chromium() -> str:
    """Path of a Chromium; without one the test is skipped, in CI it fails."""
    named = os.environ.get("NEARMETAL_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    said = f"no Chromium: none of {', '.join(NAMES)} is on PATH (or set NEARMETAL_CHROMIUM)"
    if os.environ.get("CI"):
        pytest.fail(said)
    pytest.skip(said)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Written reports: the virtual rack, large servers, nothing at all."""
    top = tmp_path_factory.mktemp("report")
    states = {"lab": made.lab_rack(top / "lab"), "big": made.big_rack(top / "big", hosts=3), "empty": top / "empty",
              "fabric": fabric_rack(top / "fabric")}  # fmt: skip
    out = {}
    for name, state in states.items():
        out[name] = top / f"{name}.html"
        out[name].write_text(render(collect(state, None, None)))
    return out


def fabric_rack(top: Path) -> Path:
    """State folder of three observed hosts: healthy, with faults, of the virtual rack."""
    hosts = {"gpu-01": fs.gpu_host("gpu-01"), "gpu-02": fs.broken_host("gpu-02"), "node1": fs.lab_host("node1")}
    made.write_run(top, "20261130T215500Z-fab", hosts, hosts, [], [])
    return top


class Watch:
    """What a page said and asked for."""

    def __init__(self, page: Page) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda m: self.said.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.said.append(f"error: {e}"))
        page.on("request", lambda r: self.asked.append(r.url))

    def clean(self, path: Path) -> None:
        """Nothing was said, and only the file itself was read."""
        assert self.said == []
        assert [u for u in self.asked if not u.startswith("data:")] == [path.as_uri()]


def opened(browser: Browser, path: Path, size: tuple[int, int], scheme: str) -> tuple[Page, Watch]:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)  # type: ignore[arg-type]
    watch = Watch(page)
    page.goto(path.as_uri())
    return page, watch


def draw_all(page: Page) -> int:
    """Open every section, scroll to every chart, and return how many are drawn."""
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    places = page.locator("[data-chart]")
    for index in range(places.count()):
        places.nth(index).scroll_into_view_if_needed()
        places.nth(index).locator(".main-svg").first.wait_for()
    return page.locator(".js-plotly-plot:has(.main-svg)").count()


@pytest.mark.parametrize(("size", "scheme"), VIEWS)
@pytest.mark.parametrize(("name", "charts"), [("lab", 4), ("big", 4), ("empty", 0), ("fabric", 0)])
def test_it_looks_right(
    browser: Browser, reports: dict[str, Path], name: str, charts: int, size: tuple[int, int], scheme: str
) -> None:
    page, watch = opened(browser, reports[name], size, scheme)
    assert draw_all(page) == charts
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(CONTRAST) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 27)"
    assert dark == (scheme == "dark")
    watch.clean(reports[name])
    page.close()


def test_dots_are_on_the_page(browser: Browser, reports: dict[str, Path]) -> None:
    page, watch = opened(browser, reports["lab"], WIDE, "light")
    draw_all(page)
    chart = page.locator("[data-chart='host-1-dots-0']")
    assert chart.locator("path.point").count() == 3 * 6 + 3  # every run, and a median of each side
    assert page.locator("[data-chart='timeline'] .bars path").count() >= 12
    watch.clean(reports["lab"])
    page.close()


def test_charts_follow_a_change_of_theme(browser: Browser, reports: dict[str, Path]) -> None:
    page, watch = opened(browser, reports["lab"], WIDE, "light")
    draw_all(page)
    text = page.locator("[data-chart='ratio-0'] .xtitle")
    light = text.evaluate("e => getComputedStyle(e).fill")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("before => getComputedStyle(document.querySelector('[data-chart=ratio-0] .xtitle')).fill !== before", arg=light)  # noqa: E501
    watch.clean(reports["lab"])
    page.close()


def test_a_link_opens_the_closed_section_of_its_host(browser: Browser, reports: dict[str, Path]) -> None:
    page, watch = opened(browser, reports["lab"], NARROW, "dark")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
    page.locator("#summary a", has_text="compute2").click()
    page.wait_for_function("document.getElementById('host-2').open")
    assert not page.evaluate("document.getElementById('host-1').open")
    watch.clean(reports["lab"])
    page.close()


def test_on_paper_everything_is_open_and_light(browser: Browser, reports: dict[str, Path], tmp_path: Path) -> None:
    page, watch = opened(browser, reports["lab"], WIDE, "dark")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 251, 249)"
    assert page.locator(".js-plotly-plot:has(.main-svg)").count() == 4
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => !d.open)")
    watch.clean(reports["lab"])
    page.close()


@pytest.mark.parametrize(("size", "scheme"), [*VIEWS, ((900, 700), "light"), ((1280, 800), "dark")])
def test_the_fabric_is_drawn_once_legibly(
    browser: Browser, reports: dict[str, Path], size: tuple[int, int], scheme: str
) -> None:
    page, watch = opened(browser, reports["fabric"], size, scheme)
    draw_all(page)
    seen = page.evaluate(FABRIC)
    assert seen["faults"] == []
    assert seen["shown"] == 3 and seen["lines"] > 500
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    first = page.locator("#host-2 svg.fabric:visible")
    assert "8 GPU(s); 7 fault(s) found" in (first.get_attribute("aria-label") or "")
    assert page.locator("#host-2 article.finding").first.inner_text().startswith("1. VFs were bound before VF LAG was active")
    assert "├─ p0 ens0f0np0 0000:17:00.0" in page.locator("#host-2 pre").inner_text()
    watch.clean(reports["fabric"])
    page.close()
