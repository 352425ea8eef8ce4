"""The report page in a real headless browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page_rig import FLAGS, Loaded, exhibit, load, rows, write_log
from under_ci import skip_or_fail

pytest.importorskip("vl_convert")
pytest.importorskip("vl_convert")
sync_api = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
import keff  # noqa: E402
from keff.analysis.audit import audit  # noqa: E402
from keff.analysis.replay import replay  # noqa: E402
from keff.analysis.scores import contest  # noqa: E402
from keff.gateway.traffic.pages import page as saved_page  # noqa: E402
from keff.gateway.traffic.savings import Baseline, GatewayChange, RequestCost  # noqa: E402
from keff.gateway.traffic.traffic import Traffic  # noqa: E402
from keff.reading.open import Opening, open_record  # noqa: E402
from keff.reading.repeated import as_scored  # noqa: E402
from keff.report.evals import write_audit_page, write_comparison_page, write_noise_page  # noqa: E402
from keff.report.mix_page import write_mix_page  # noqa: E402
from keff.report.page import Exhibit, write_page  # noqa: E402

pytestmark = pytest.mark.slow
BIDI, NUL = "\u202e", "\x00"
HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    "<!-- <script> -->]]><img src=x onerror='window.pwned = 1'>",
    "<svg onload=window.pwned=1> {{ 7 * 7 }} ${7 * 7}",
    f"{BIDI}right to left{NUL} and nothing\u2028a line\u2029a paragraph",
    "x" * 200_000,
    "\ud800 half a pair",
]
CHARTS = {"gain", "worth", "difficulty", "frontier_paths"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        skip_or_fail("chromium is not installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def plain(folder: Path) -> Path:
    run = exhibit(write_log(folder / "plain.jsonl", rows(70, 8, 1)))
    write_page([Exhibit(*run)], folder / "plain.html")
    return folder / "plain.html"


@pytest.fixture(scope="module")
def hostile(folder: Path) -> Path:
    lines = rows(12, 4, 2)
    for index, text in enumerate(HOSTILE):
        lines[index] |= {"id": f"bad-{index}-{text[:60]}", "question": text}
        lines[index]["all_answers"][0] = text
        lines[index]["all_texts"] = [f"{text} so the answer is {text}"] * 4
        lines[index]["gold_answer"] = text
    run = exhibit(write_log(folder / "hostile.jsonl", lines))
    write_page([Exhibit(*run)], folder / "hostile.html")
    return folder / "hostile.html"


@pytest.fixture(scope="module")
def opened(browser: Any, plain: Path) -> Loaded:
    """The plain page, for tests that only look at it."""
    return load(browser, plain)


def violations(page: Any) -> list[str]:
    """Return what axe-core finds serious or critical."""
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]}"
        for one in axe.Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_every_chart_is_drawn_and_nothing_goes_wrong(opened: Loaded, plain: Path) -> None:
    page, wrong = opened
    assert wrong == []
    drawn = page.eval_on_selector_all(
        ".chart",
        "all => all.map(e => [e.dataset.chart, e.querySelectorAll('svg path, svg rect, svg line').length])",
    )
    assert {name for name, _ in drawn} == CHARTS | {"saturation"}
    assert all(marks > 5 for _, marks in drawn)
    assert page.locator("[data-chart=gain] .wide .mark-area path").count() >= 2
    page.get_by_text("The paper's view").click()
    assert page.locator("[data-chart=saturation] .wide .mark-area path").count() >= 2
    wide, narrow = (page.locator(f"[data-chart=saturation] .{kind}") for kind in ("wide", "narrow"))
    assert wide.is_visible() and not narrow.is_visible()
    assert wide.bounding_box()["width"] == page.locator("[data-chart=gain] .wide").bounding_box()["width"]
    parts = page.eval_on_selector_all("[id]", "all => all.map(e => e.id)")
    assert len(parts) == len(set(parts)), "clips of one drawing are not taken for those of another"
    assert page.locator("[data-chart=difficulty] .mark-rect path").count() == 9
    assert plain.stat().st_size < 350_000
    assert page.locator("h1").is_visible()
    assert page.locator(".pair").count() == 2


@pytest.fixture(scope="module")
def side_pages(folder: Path) -> list[Path]:
    """The pages of ``keff mix``, ``keff noise``, ``keff compare``, ``keff audit`` and of the gateway."""
    logs = [write_log(folder / f"{name}.jsonl", rows(30, 6, seed)) for seed, name in enumerate("ab")]
    names = ["small & <i>cheap</i>", "large-2024_chain_of_thought_of_nine_steps"]
    write_mix_page(keff.mix(*logs, names=names), folder / "mix.html")
    traffic = Traffic(change=GatewayChange(Baseline("fixed:8", 8)))
    for number in range(60):
        traffic.add_reply(
            RequestCost(2.0, 0.01, 3 + number % 4, 5.0, 300, key="alice", model="m", stop="policy")
        )
    state = {
        "policy": "lead_k:3,cap=8",
        "drift": {"requests": 60, "alarms": {"looks": True}},
        "warning": None,
    }
    (folder / "keff.html").write_text(saved_page(traffic.summary() | state))
    write_noise_page([(logs[0].name, keff.noise(logs[0]))], folder / "noise.html")
    scored = [as_scored(open_record(log)) for log in logs]
    compared = contest(scored)
    write_comparison_page(compared, folder / "compare.html")
    records = [open_record(log, Opening(texts=True)) for log in logs]
    found = audit(records)
    assert found.suspects, "rows open on what was answered"
    write_audit_page(found, records, folder / "audit.html")
    return [folder / f"{name}.html" for name in ("mix", "noise", "compare", "audit", "keff")]


LETTERS = """all => all.filter(e => e.textContent && e.checkVisibility()).map(e => {
  const own = e.getBoundingClientRect(), all = e.ownerSVGElement.getBoundingClientRect();
  return [own.height, own.left >= all.left - 1 && own.right <= all.right + 1];
})"""


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page_is_for_everyone_and_nothing_is_clipped(
    browser: Any, side_pages: list[Path], width: int, scheme: str
) -> None:
    clipped = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML.slice(0, 99))"
    for file in side_pages:
        screen = {"width": width, "height": 900}
        context = browser.new_context(viewport=screen, color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        page.goto(file.as_uri())
        page.eval_on_selector_all("details", "all => all.forEach(e => e.open = true)")
        assert violations(page) == [], file.name
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (
            "nothing is wider than the screen"
        )
        assert page.eval_on_selector_all(".scroll, .t, figure", clipped) == [], file.name
        assert page.locator("h1").count() == 1
        assert page.locator("[role=img], .pair dl, .chips").count() >= 1
        # Type in a drawing is scaled with it: it stays legible, and within it.
        marks = page.eval_on_selector_all("svg text", LETTERS)
        assert marks or file.stem in ("keff", "audit"), "the gateway's page has bars, an audit's rows only"
        assert min((high for high, _ in marks), default=10) > 9, file.name
        assert all(within for _, within in marks), file.name
        page.set_viewport_size({"width": 688, "height": 1017})  # A4 between its margins
        page.emulate_media(media="print")
        assert page.eval_on_selector_all(".scroll, .t, figure", clipped) == [], "what is printed is whole"
        assert file.stat().st_size < 1_000_000
        context.close()


def test_marks_have_tooltips(opened: Loaded) -> None:
    page, _ = opened
    page.get_by_text("Why it saturates").click()
    page.locator("[data-chart=difficulty] .mark-rect path").first.hover()
    said = page.locator(".tip").inner_text().split("\n")
    assert [line.partition(":")[0] for line in said[:2]] == ["paths right", "questions"]
    page.locator("h1").hover()
    assert not page.locator(".tip").is_visible()


def test_charts_need_no_script(browser: Any, plain: Path) -> None:
    page = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800}).new_page()
    page.goto(plain.as_uri())
    assert page.locator("[data-chart=gain] .narrow").is_visible()
    assert "The table of questions needs JavaScript" in page.locator("noscript").inner_text()
    page.context.close()


def test_search_filters_sorting_and_paths(browser: Any, plain: Path) -> None:
    page, wrong = load(browser, plain)
    lines = page.locator(".items tbody tr")
    assert lines.count() == 50
    leads = page.evaluate(
        "JSON.parse(document.getElementById('data').textContent)['run-1'].rows.map(r => "
        "[`item-${r.id}`, (r.a[0][1] - (r.a[1]?.[1] ?? 0)) / r.v.length])"
    )
    lead = dict(leads)
    first = [
        lead[place] for place in page.eval_on_selector_all(".items tbody tr", "all => all.map(e => e.id)")
    ]
    assert first == sorted(first), "the most contested first"
    page.get_by_role("button", name="Show more").click()
    assert lines.count() == 70
    page.locator("input[name=search]").fill("number 61")
    assert lines.count() == 1
    page.get_by_role("button", name="paths of q/61").press("Enter")
    assert page.locator(".detail pre mark").count() == 8
    first = page.locator(".detail pre").nth(1)
    assert first.evaluate("e => e.querySelector('mark').previousSibling.data").endswith("The answer is ")
    page.locator("input[name=search]").fill("no such thing")
    assert lines.count() == 0
    page.locator("input[name=search]").fill("")
    page.locator("select[name=show]").select_option("wrong")
    assert 0 < lines.count() < 70
    page.locator("select[name=show]").select_option("all")
    page.locator("[data-sort=r] button").click()
    shares = [
        int(text.split(" of ")[0])
        for text in page.locator(".items tbody tr td:last-child").all_inner_texts()
        if " of " in text
    ]
    assert shares == sorted(shares)
    assert wrong == []


def test_the_rule_is_copied(browser: Any, plain: Path) -> None:
    page, wrong = load(browser, plain, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".copy code").inner_text()
    assert wrong == []


def test_every_chart_says_in_words_what_it_shows(opened: Loaded) -> None:
    page, _ = opened
    told = dict(page.eval_on_selector_all(".chart", "all => all.map(e => [e.dataset.chart, e.ariaLabel])"))
    labels = page.locator("[data-chart=gain] .wide").inner_html()
    assert "keff: " in labels
    assert all(len(text) > 40 for text in told.values())
    accuracy = re.search(r"reaches ([\d.]+%)", told["gain"])
    assert accuracy is not None
    assert f"{accuracy[1]}<" in labels, "one number for one fact"
    assert accuracy[1] in told["frontier_paths"]


def test_a_deep_link_opens_its_item(browser: Any, plain: Path) -> None:
    page, _ = load(browser, plain, "#item-q%2F66")
    assert page.locator("tr.target").get_attribute("id") == "item-q/66"
    assert page.locator(".detail pre").first.is_visible()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "paths of q/66"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_is_accessible_and_fits(browser: Any, plain: Path, width: int, scheme: str) -> None:
    page, _ = load(
        browser, plain, "#item-q%2F3", viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    page.eval_on_selector_all("details", "all => all.forEach(e => e.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    clipped = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel)"
    assert page.eval_on_selector_all(".scroll", clipped) == [], "no table is cut"
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    # Rows are alike: contrasts are looked at in those of a few questions.
    page.locator("input[name=search]").fill("number 3")
    assert page.locator(".items .detail").count() == 1
    assert violations(page) == []


def test_it_prints(browser: Any, plain: Path, folder: Path) -> None:
    page, _ = load(browser, plain, color_scheme="dark")
    page.pdf(path=folder / "page.pdf", format="A4")
    assert (folder / "page.pdf").read_bytes().startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".tools").is_hidden()
    page.set_viewport_size({"width": 688, "height": 1017})  # A4 between its margins
    wide = "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className)"
    assert page.eval_on_selector_all("table, .pairs, .chart svg", wide) == []
    assert page.evaluate("getComputedStyle(document.querySelector('.bar i')).printColorAdjust") == "exact"
    first, drawn = (page.locator(f"[data-chart=gain]{part}").bounding_box() for part in ("", " .wide"))
    assert first["y"] + first["height"] <= 1017, "the first chart stands on the first page"
    assert first["height"] - drawn["height"] < 12, "and nothing is left empty below it"


def test_hostile_output_stays_text(browser: Any, hostile: Path) -> None:
    page, wrong = load(browser, hostile)
    for button in page.locator(".items .open").all():
        button.click()
    assert page.evaluate("window.pwned") is None
    assert wrong == []
    assert page.locator("main script, main img, main svg[onload]").count() == 0
    shown = page.locator(".items").inner_text()
    assert "</script><script>window.pwned = 1</script>" in shown
    assert "{{ 7 * 7 }}" in shown
    assert "␀" in shown
    assert BIDI not in shown
    assert "more characters" in shown
    assert hostile.stat().st_size < 1_000_000


def test_the_page_refuses_scripts_that_are_not_its_own(opened: Loaded) -> None:
    page, _ = opened
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: "
        "'window.pwned = 1'}))"
    )
    assert page.evaluate("window.pwned") is None


def test_several_runs_begin_with_an_overview(browser: Any, folder: Path) -> None:
    files = [write_log(folder / f"run{seed}.jsonl", rows(30, 4, seed, slots=seed - 2)) for seed in (3, 4)]
    one, two = (exhibit(file) for file in files)
    write_page([Exhibit(*one), Exhibit(*two)], folder / "two.html")
    page, wrong = load(browser, folder / "two.html", "#item-2-q%2F5")
    assert wrong == []
    assert page.locator("#overview a").all_inner_texts() == ["run3", "run4"]
    assert page.locator("#run-2 tr.target").count() == 1
    assert page.locator("#run-1 [data-chart=slots]").count() == 0
    parts = page.eval_on_selector_all("#overview, #run-1, #run-2", "all => all.map(e => e.id)")
    assert parts == ["overview", "run-1", "run-2"]
    page.set_viewport_size({"width": 390, "height": 800})
    clipped = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel)"
    assert page.eval_on_selector_all(".scroll", clipped) == [], "no table is cut on a telephone"
    page.set_viewport_size({"width": 1280, "height": 800})
    assert violations(page) == []
    assert page.locator("#run-2 [data-chart=slots] .wide .mark-rect path").count() == 2


def test_rules_of_long_names_fit_a_telephone(browser: Any, folder: Path) -> None:
    rng = np.random.default_rng(7)
    lines = [row | {"all_tokens": rng.integers(50, 900, 16).tolist()} for row in rows(30, 16, 5)]
    write_page([Exhibit(*exhibit(write_log(folder / "timed.jsonl", lines)))], folder / "timed.html")
    page, _ = load(browser, folder / "timed.html", viewport={"width": 320, "height": 800})
    page.eval_on_selector_all("details", "all => all.forEach(e => e.open = true)")
    names = page.locator(".stack code").all_inner_texts()
    assert max(map(len, names)) > 40, "in flight, with a cap and an order"
    beyond = "all => all.filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.innerText)"
    assert page.eval_on_selector_all(".stack td, .stack code", beyond) == []


def test_what_is_unknown_is_said(browser: Any, folder: Path) -> None:
    bare = [{"id": row["id"], "all_answers": row["all_answers"]} for row in rows(20, 6, 5)]
    scores = [{"id": str(i), "all_answers": ["1"], "gold_answer": "1"} for i in range(3)]
    runs = [
        exhibit(write_log(folder / f"{name}.jsonl", lines))
        for name, lines in (("bare", bare), ("one", scores))
    ]
    write_page([Exhibit(*run) for run in runs], folder / "bare.html")
    page, wrong = load(browser, folder / "bare.html")
    assert wrong == []
    assert "Without gold answers" in page.locator("#run-1").inner_text()
    assert "one block per answer" in " ".join(page.locator("#run-1").inner_text().split())
    assert page.locator("#run-1 .bar .right, #run-1 .bar .wrong").count() == 0
    assert page.locator("#run-1 [data-chart=stability] .wide .mark-line path").count() == 1
    assert "Sample more paths" in page.locator("#run-2").inner_text()


def test_a_real_record_with_its_replay(browser: Any, recorded: list[Path], folder: Path) -> None:
    file = next(path for path in recorded if path.name == "boinf_math500_Qwen3-14B.jsonl")
    run = exhibit(file)
    policies = ["fixed:8", "lead_k:3", run[1].decision.policy]
    replayed = replay(run[0].ballot.votes, policies, np.random.default_rng(0))
    write_page([Exhibit(*run, replayed)], folder / "real.html")
    page, wrong = load(browser, folder / "real.html")
    assert wrong == []
    assert (folder / "real.html").stat().st_size < 1_000_000
    assert page.locator("output[name=count]").inner_text() == "500 of 500 questions"
    assert "Accuracy" in page.locator(".pairs").inner_text()
    assert page.locator("[data-chart=frontier_tokens] .mark-symbol path").count() > 10
    assert (
        page.locator("[data-chart=frontier_tokens] .wide .mark-text text").filter(has_text="keff").count()
        == 1
    )
