"""The pictures of the review page that docs/ has: `python -m tests.longhand.review_pictures`, where Chromium is."""

import tempfile
import time
from pathlib import Path

from longhand.cli.viewing import page_text
from tests.longhand.browser import Browser

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def line(pane, text):
    """The line of a pane that begins with a text."""
    lines = f"[...document.querySelectorAll('#{pane} .l')]"
    return f"{lines}.find(one => one.children[1].textContent.trim().startsWith({text!r}))"


def rest(browser):
    time.sleep(0.9)  # panes scroll to what is lit
    browser.settle()


def main():
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        file = Path(folder, "page.html")
        file.write_text(page_text(Path("generated/gpt_cuda"), None, None, None), encoding="utf-8")
        browser.size(1440, 860)
        browser.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")
        browser.open(file.as_uri())
        browser.click(line("source", "x = x + self.attn(self.ln_1(x))"))
        browser.value("scrollTo({top: 0, behavior: 'instant'})")
        rest(browser)
        browser.screenshot(DOCS / "review_light.png")
        browser.media(prefers_color_scheme="dark", prefers_reduced_motion="reduce")
        browser.value("document.getElementById('fusion').scrollIntoView({behavior: 'instant'})")
        rest(browser)
        browser.screenshot(DOCS / "review_dark.png")
        browser.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")
        browser.size(420, 860)
        browser.value("document.getElementById('memory').scrollIntoView({behavior: 'instant'})")
        rest(browser)
        browser.screenshot(DOCS / "review_narrow.png")


if __name__ == "__main__":
    main()
