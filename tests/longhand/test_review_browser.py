"""The review page in Chromium: it opens, loads nothing, and lights what came from what is pointed at."""

import shutil
import time
from pathlib import Path

import pytest

from longhand.cli.viewing import page_text
from tests.longhand import browser

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "generated"
UNITS = sorted(lock.parent for lock in GALLERY.rglob("longhand.lock"))
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser.found() is None, reason="no Chromium here"),
]
LIT = "[...document.querySelectorAll('#%s .l.lit code')].map(one => one.textContent.trim())"


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser() as one:
        yield one


@pytest.fixture
def opened(chromium, tmp_path):
    """opened(unit): its page is open, at the size of a desktop, in the light."""

    def run(unit, *options):
        file = tmp_path / "page.html"
        file.write_text(page_text(GALLERY / unit, *(options or (None, None, None))), encoding="utf-8")
        chromium.size(1400, 900)
        chromium.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")
        chromium.open(file.as_uri())
        return chromium

    return run


def lit(page, pane):
    return page.value(LIT % pane)


def line(pane, text):
    """The line of a pane that begins with a text."""
    lines = f"[...document.querySelectorAll('#{pane} .l')]"
    return f"{lines}.find(one => one.children[1].textContent.trim().startsWith({text!r}))"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.relative_to(GALLERY).as_posix())
def test_it_opens_without_a_word_in_the_console(opened, unit):
    page = opened(unit)
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    for scheme in ("light", "dark"):
        page.media(prefers_color_scheme=scheme)
        for width in (1400, 390):
            page.size(width, 900)
            assert page.value("document.documentElement.scrollWidth") == width, "it scrolls sideways"
    assert page.errors == []


def test_pointing_at_a_statement_lights_what_it_became(opened):
    page = opened("gpt_cuda")
    page.point(line("source", "x = x + self.attn(self.ln_1(x))"))
    assert lit(page, "source") == ["x = x + self.attn(self.ln_1(x))"]
    assert "residual = x + y" in lit(page, "kernel") and "kernels.add_and_layer_norm(" in lit(page, "model")
    own = page.value(
        "[...document.querySelectorAll('#kernel-add_and_layer_norm .l.lit')].map(one => one.textContent)"
    )
    assert own and not any("rstd" in one for one in own), "the norm is another statement's"
    assert "add_and_layer_norm" in page.value("document.getElementById('told').textContent")
    boxes = page.value("[...document.querySelectorAll('.box.lit')].map(one => one.ariaLabel.split(',')[0])")
    assert "add_and_layer_norm" in boxes and "gelu" not in boxes
    page.point("document.querySelector('h1')")
    assert lit(page, "source") == lit(page, "model") == lit(page, "kernel") == []


def test_and_back_from_a_line_of_a_kernel(opened):
    page = opened("gpt_cuda")
    page.point(line("kernel", "rstd = tl.rsqrt"))
    assert lit(page, "source") == ["return x + self.mlp(self.ln_2(x))"]
    page.point(line("model", "q = F.linear") if "q = F.linear" in page.value("document.body.textContent")
               else line("model", "qkv = F.linear"))  # fmt: skip
    assert lit(page, "source") == ["q, k, v = self.qkv(x).split(dim, dim=-1)"]
    page.point("document.querySelector('.box.ours .chip')")
    assert lit(page, "source") and lit(page, "model")


def test_the_keyboard_goes_from_statement_to_statement(opened):
    page = opened("attention_cpu")
    page.value(f"{line('source', 'q = self.W_q(x)')}.focus()")
    assert lit(page, "model")[-1] == "q = F.linear(x, self.W_q.weight)"
    page.press("ArrowDown", 40)
    assert lit(page, "source") == ["k = self.W_k(x)"] and lit(page, "model")[-1].startswith("k = F.linear")
    page.press("Enter", 13)
    page.point("document.querySelector('h1')")
    assert lit(page, "source") == ["k = self.W_k(x)"], "it is held"
    page.press("Escape", 27)
    assert lit(page, "source") == []
    page.value("document.getElementById('kernel').focus()")
    page.press("ArrowDown", 40)
    assert lit(page, "source") == ["out = torch.exp(out) / torch.sum(torch.exp(out), dim=-1, keepdim=True)"]


def test_a_click_holds_and_a_tap_lights(opened):
    page = opened("attention_cpu")
    page.click(line("source", "v = self.W_v(x)"))
    page.point("document.querySelector('h1')")
    assert lit(page, "source") == ["v = self.W_v(x)"]
    page.click(line("source", "v = self.W_v(x)"))
    page.point("document.querySelector('h1')")
    assert lit(page, "source") == []
    page.size(390, 844)
    page.tap(line("source", "k = self.W_k(x)"))
    time.sleep(0.1)
    assert lit(page, "source") == ["k = self.W_k(x)"]
    page.send("Emulation.setTouchEmulationEnabled", enabled=False)


def test_what_is_far_away_comes_into_view(opened):
    page = opened("gpt_train_cpu")
    page.point(line("source", "return F.cross_entropy"))
    time.sleep(0.6)
    page.settle()
    assert page.value(
        "(() => { const pane = document.getElementById('model').getBoundingClientRect();"
        " return [...document.querySelectorAll('#model .l.lit')].some(one => {"
        " const at = one.getBoundingClientRect(); return at.top >= pane.top && at.bottom <= pane.bottom; }); })()"
    )


def test_why_two_boxes_are_not_one(opened):
    page = opened("llama_block_cuda")
    page.point("document.querySelector('[data-two]')")
    found = page.value("[...document.querySelectorAll('.box.two .name')].map(one => one.textContent)")
    told = page.value("document.querySelector('[data-two]').textContent")
    assert len(found) == 2 and all(name in told for name in found)


def test_text_can_be_read(opened):
    """Every text has a contrast of 4.5 with what it stands on, in the light and in the dark, lit or not."""
    page = opened("attention_cpu")
    page.point(line("source", "out = torch.exp(out)"))
    for scheme in ("light", "dark"):
        page.media(prefers_color_scheme=scheme)
        page.settle()
        assert page.value(CONTRAST) == []


CONTRAST = """(() => {
  const parsed = (color) => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (c) => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const color = parsed(getComputedStyle(one).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || one.closest('svg, script') || !one.offsetParent) continue;
    if (getComputedStyle(one).opacity !== '1') { bad.push(['opacity', one.outerHTML.slice(0, 80)]); continue; }
    const [a, b] = [light(parsed(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < 4.5) bad.push([contrast.toFixed(2), one.outerHTML.slice(0, 80)]);
  }
  return [...new Map(bad.map(one => [one[0], one])).values()].slice(0, 8);
})()"""


def test_odd_names_run_nothing(chromium, tmp_path):
    from tests.longhand.test_review_page import ODD, change_lock

    unit = shutil.copytree(GALLERY / "attention_cpu", tmp_path / "unit")

    def change(lock):
        lock["source"] = ODD
        lock["quotes"][f"{ODD}    {ODD}"] = f"{ODD}:3"
        lock["picture"]["passes"][0]["steps"][0] |= {"call": ODD, "quotes": [f"a    {ODD}"]}

    change_lock(unit, change)
    file = tmp_path / "page.html"
    file.write_text(page_text(unit, None, None, None), encoding="utf-8")
    chromium.open(file.as_uri())
    assert chromium.errors == [] and [url for url in chromium.requests if url.endswith("/x")] == []
    assert chromium.value("document.images.length") == 0
