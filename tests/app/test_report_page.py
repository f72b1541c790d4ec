"""The report as a reader meets it: at a desk, on a telephone, on paper, in the dark, without scripts."""

import html
import json
import re
import shlex
import shutil

import browser
import pytest
import tiny_run

from temperflow.app import cli, recipes
from temperflow.app.aftermath import COMPARISON
from temperflow.app.cli_options import overrides
from temperflow.app.files import to_json
from temperflow.app.report import write
from temperflow.app.run_directory import METRICS, VERDICT, RunDirectory

FINDINGS = [
    {"name": "flow ESS", "level": "check", "text": "0.310 of the flow's draws are effective"},
    {"name": "coverage", "level": "not converged", "text": "4.0% of a wide tempered run's draws lie where < & >"},
    {"name": "flow k-hat", "level": "trusted", "text": "0.20 is the shape of the weights' tail"},
]
ROW = {
    "w2": 3.2,
    "w2_floor": 2.1,
    "elbo": -0.4,
    "eubo": None,
    "ess": 0.31,
    "log_evidence": 0.01,
    "log_evidence_error": 0.02,
    "modes": 9,
    "mode_tv": 0.1,
    "energy_calls": 12_345_678,
    "seconds": 9.1,
}
WRITTEN = {
    VERDICT: {"verdict": "not converged", "reasons": FINDINGS[:2][::-1], "findings": FINDINGS},
    METRICS: {
        **dict.fromkeys(("w2", "w2_spread", "w2_floor", "w2_floor_spread", "elbo", "elbo_error", "eubo"), 0.5),
        **dict.fromkeys(("eubo_error", "ess", "ess_error", "ess_forward", "ess_forward_error", "khat"), 0.2),
        **dict.fromkeys(("mode_tv", "mode_tv_spread", "mode_tv_floor", "entropic", "free_energy"), 0.1),
        **{"log_evidence": -0.00281, "log_evidence_error": 0.00602, "log_evidence_known": 0.0},
        **{"modes": 9.0, "modes_worst": 9, "energy_calls": 7500, "n": 2500, "trials": 3},
    },
    COMPARISON: {
        "n": 2500,
        "seed": 0,
        "rows": [{"sampler": name, **ROW} for name in ("temperflow, flow", "annealed importance sampling")],
    },
}


@pytest.fixture(scope="module")
def page(whole, tmp_path_factory):
    """The page of a finished run that has been judged, measured and compared."""
    place = RunDirectory(tmp_path_factory.mktemp("report") / "run")
    shutil.copytree(whole.directory, place.path)
    for name, values in WRITTEN.items():
        place.write(name, to_json(values))
    return write(place.path)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.PROGRAM is None:
        pytest.skip("no Chromium here")
    opened = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


WAYS = {
    "desk": {},
    "telephone": {"width": 390, "height": 844},
    "small telephone": {"width": 320, "height": 568},
    "dark": {"dark": True},
    "paper": {"width": 720, "media": "print"},
}


@pytest.mark.parametrize("way", WAYS)
def test_it_opens_without_complaint_and_asks_nobody(chromium, page, way):
    chromium.errors.clear()
    chromium.requests.clear()
    chromium.open(page.as_uri(), **WAYS[way])
    assert chromium.errors == []
    assert chromium.requests[0] == page.as_uri()
    assert all(address.startswith("data:") for address in chromium.requests[1:])


def test_a_complaint_and_a_request_would_be_noticed(chromium, tmp_path):
    (tmp_path / "bad.html").write_text('<img src="http://127.0.0.1:9/x.png"><script>nothing.at.all</script>')
    chromium.errors.clear()
    chromium.requests.clear()
    chromium.open((tmp_path / "bad.html").as_uri())
    assert chromium.errors
    assert "http://127.0.0.1:9/x.png" in chromium.requests
    chromium.errors.clear()


OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_wider_than_the_page(chromium, page, way):
    chromium.open(page.as_uri(), **WAYS[way])
    chromium.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert chromium.run(OVERFLOW) <= 0
    boxes = "[...document.querySelectorAll('.tile, .verdict, figure')]"
    assert chromium.run(f"{boxes}.every((each) => each.scrollWidth <= each.clientWidth)")
    chromium.run("document.body.insertAdjacentHTML('beforeend', '<div style=\"width: 2000px\">wide</div>')")
    assert chromium.run(OVERFLOW) > 0  # and it would be seen


@pytest.mark.parametrize("way", ["desk", "telephone", "paper"])
def test_the_verdict_comes_first(chromium, page, way):
    chromium.open(page.as_uri(), **WAYS[way])
    first = chromium.run("document.querySelector('section').className")
    assert "verdict" in first
    assert "bad" in first
    said = chromium.run("document.querySelector('.verdict').innerText")
    assert said.split("\n")[0] == "not converged"
    assert "coverage: 4.0% of a wide tempered run's draws lie where < & >" in said
    # Whole within what one sees without scrolling.
    height = WAYS[way].get("height", 900)
    assert chromium.run("document.querySelector('.verdict').getBoundingClientRect().bottom") < height


def test_a_good_verdict_is_short(page, tmp_path):
    shutil.copytree(page.parent, tmp_path / "run")
    good = [{**finding, "level": "trusted"} for finding in FINDINGS]
    verdict = {"verdict": "trusted", "reasons": good, "findings": good}
    RunDirectory(tmp_path / "run").write(VERDICT, to_json(verdict))
    text = write(tmp_path / "run").read_text(encoding="utf-8")
    said = re.search(r'<section class="verdict good">.*?</section>', text, re.DOTALL)[0]
    assert re.findall("<li>(.*?)</li>", said) == [
        "nothing in 3 findings speaks against the draws, used with their weights"
    ]
    assert all(html.escape(finding["text"]) in said for finding in good)


SIZES = """[...document.querySelectorAll('svg, img, canvas')].filter((each) => each.checkVisibility()).map((each) => {
  const box = each.getBoundingClientRect(); return [box.width, box.height]; })"""


@pytest.mark.parametrize("way", WAYS)
def test_every_picture_has_a_size(chromium, page, way):
    chromium.open(page.as_uri(), **WAYS[way])
    sizes = chromium.run(SIZES)
    assert len(sizes) >= 11
    assert all(width > 150 and height > 50 for width, height in sizes)
    named = chromium.run("[...document.querySelectorAll('figure svg')].every((each) => each.ariaLabel)")
    assert named


INK = """(() => {
  const canvas = document.querySelector('canvas'), pixels = canvas.getContext('2d')
    .getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0, x = 0, y = 0, red = 0;
  for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3]) {
    count++; x += (i / 4) % canvas.width; y += Math.floor(i / 4 / canvas.width); red += pixels[i] > pixels[i + 2];
  }
  return {count, x: x / count, y: y / count, red: red / count, text: document.querySelector('output').textContent};
})()"""


def moved(chromium, thousandths):
    """What the canvas shows once the slider is there."""
    chromium.run(
        f"(() => {{ const slider = document.querySelector('input[type=range]'); slider.value = {thousandths};"
        "slider.dispatchEvent(new Event('input')); })()"
    )
    return chromium.run(INK)


def test_the_slider_moves_the_particles(chromium, page):
    chromium.open(page.as_uri())
    before = chromium.run(INK)
    assert before["text"] == "t = 1.00"
    assert before["count"] > 1000
    at_start, half_way, at_end = (moved(chromium, place) for place in (0, 500, 1000))
    assert [each["text"] for each in (at_start, half_way, at_end)] == ["t = 0.00", "t = 0.50", "t = 1.00"]
    assert at_end == before
    drawn = {each["count"] for each in (at_start, half_way, at_end)}
    assert len(drawn) == 3
    assert min(drawn) > 1000


def test_a_slider_without_its_listener_would_be_noticed(chromium, page, tmp_path):
    dead = page.read_text().replace('slider.addEventListener("input"', 'slider.addEventListener("nothing"')
    (tmp_path / "dead.html").write_text(dead)
    chromium.open((tmp_path / "dead.html").as_uri())
    assert moved(chromium, 0)["text"] == "t = 1.00"


def test_play_runs_to_the_end(chromium, page):
    chromium.open(page.as_uri())
    moved(chromium, 900)
    chromium.run("document.querySelector('button').click()")
    assert chromium.run("document.querySelector('button').textContent") == "pause"
    ended = """new Promise((done) => { const look = () => {
      if (document.querySelector('button').textContent === 'play') done(document.querySelector('output').textContent);
      else setTimeout(look, 20); }; look(); })"""
    assert chromium.run(ended) == "t = 1.00"


def test_the_proposals_walkers_are_coloured_by_temperature(chromium, page):
    chromium.open(page.as_uri())
    assert chromium.run(INK)["red"] == 0.0
    chromium.run("document.querySelector('input[value=proposal]').click()")
    assert chromium.run(INK)["red"] > 0.05


def visible(chromium, selector):
    return chromium.run(f"[...document.querySelectorAll('{selector}')].some((each) => each.checkVisibility())")


def test_on_paper_there_are_stills_and_the_whole_configuration(chromium, page, tmp_path):
    chromium.open(page.as_uri())
    assert (visible(chromium, ".way"), visible(chromium, "figure.still")) == (True, False)
    chromium.open(page.as_uri(), **WAYS["paper"])
    assert (visible(chromium, ".way"), visible(chromium, "figure.still")) == (False, True)
    assert not visible(chromium, "details.printed pre")
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    assert visible(chromium, "details.printed pre")
    assert chromium.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    chromium.paper(tmp_path / "page.pdf")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 9


def test_without_scripts_there_are_stills(chromium, page):
    chromium.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.open(page.as_uri())
        assert (visible(chromium, ".way"), visible(chromium, "figure.still")) == (False, True)
    finally:
        chromium.command("Emulation.setScriptExecutionDisabled", value=False)


def parts(page):
    """The command and the configuration that the page shows."""
    text = page.read_text(encoding="utf-8")
    words = re.search(r'<pre class="command">(.*?)</pre>', text, re.DOTALL)[1]
    config = re.search(r"<summary>the exact configuration.*?<pre>(.*?)</pre>", text, re.DOTALL)[1]
    return html.unescape(words), json.loads(html.unescape(config))


def test_the_command_makes_the_very_run_again(page):
    words, config = parts(page)
    settings = RunDirectory(page.parent).settings()
    assert config == json.loads((page.parent / "config.json").read_text())
    program, *rest = shlex.split(words)
    arguments, unknown = cli._parser(rest[0], rest).parse_known_args(rest)
    assert (program, unknown, arguments.target, arguments.seed) == ("temperflow", [], "gmm9", settings.seed)
    assert recipes.get(arguments.recipe).override(overrides(arguments)) == settings.config
    assert settings.config.training.epochs == tiny_run.OVERRIDES["training.epochs"]


def test_the_page_is_one_file_and_its_figures_are_files_as_well(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', text)
    assert not re.findall(r"@import|url\((?!#|data:)", text)
    assert len(text) < 3_000_000
    figures = sorted(path.name for path in (page.parent / "figures").iterdir())
    assert {"draws.svg", "way.svg", "temperatures.svg", "ess.svg", "residual.svg", "curve-residual.svg"} < set(figures)
    assert all((page.parent / "figures" / name).read_text().rstrip().endswith("</svg>") for name in figures)


def test_an_unfinished_run_says_so_first(tmp_path, whole):
    """As far as the newest checkpoint: the sampler's file is not there yet."""
    shutil.copytree(whole.directory, tmp_path / "run")
    place = RunDirectory(tmp_path / "run")
    manifest = json.loads((place.path / "manifest.json").read_text())
    del manifest["files"]["sampler.safetensors"]
    (place.path / "manifest.json").write_text(json.dumps(manifest))
    (place.path / "sampler.safetensors").unlink()
    text = write(place.path).read_text(encoding="utf-8")
    assert "<strong>not finished</strong>" in text
    assert "temperflow resume run" in text
    assert 'id="way"' in text
