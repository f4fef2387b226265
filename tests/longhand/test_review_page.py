"""The review page without a browser: what leads where, what it reads, and that data stays data."""

import html.parser
import http.client
import json
import os
import re
import shutil
import threading
from pathlib import Path

import pytest
import torch

import longhand
from longhand import cli
from longhand.cli.viewing import page_text
from longhand.errors import OptionError
from longhand.factory import resolve
from longhand.review.memory_timeline import timeline_of
from longhand.review.picture import read_picture
from longhand.review.serving import page_server
from longhand.review.statement_links import link_kernel, link_model
from longhand.review.unit_content import content_on_disk
from longhand.schedule.functions import derivatives
from tests.longhand import git

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "generated"
UNITS = sorted(lock.parent for lock in GALLERY.rglob("longhand.lock"))
LARGEST = 1_500_000
# What the template has, and nothing else.
TAGS = frozenset(re.findall("<([a-z]+[1-4]?)", (ROOT / "templates/review/page.html.jinja").read_text()))


class Reader(html.parser.HTMLParser):
    """The tags of a page, their attributes, and its text outside of script and style."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text += data


def is_harmless(text):
    """Whether a page has the elements of the template alone, one script, and nothing from elsewhere."""
    page = Reader(text)
    assert set(page.tags) <= TAGS, set(page.tags) - TAGS
    assert page.tags.count("script") == page.tags.count("style") == 1
    for tag, name, value in page.attributes:
        assert not name.startswith("on") and name not in (
            "src",
            "srcset",
            "srcdoc",
            "action",
            "xlink:href",
        ), tag
        assert name != "href" or value.startswith("#") or (tag, value) == ("link", "data:,")
        assert name != "style" or re.fullmatch(r"(--[ab]:\d+;?)+", value)
    (policy,) = (
        value for tag, name, value in page.attributes if name == "content" and "default-src" in value
    )
    assert policy.startswith("default-src 'none'; img-src data:; ") and "script-src 'sha256-" in policy
    return page


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.relative_to(GALLERY).as_posix())
def test_of_each_unit_there_is_a_page_of_one_file(unit):
    text = page_text(unit, None, None, None)
    assert len(text.encode()) <= LARGEST
    page = is_harmless(text)
    lock = json.loads((unit / "longhand.lock").read_text())
    for kernel in lock["kernels"]:
        assert f'id="kernel-{kernel}"' in text
    shown = {value for _, name, value in page.attributes if name == "data-s"}
    assert shown, "no statement leads anywhere"
    assert text == page_text(unit, None, None, None)


def linked(unit, path, kernel=None):
    """By line of a file, without its blanks: the statements that it is linked with."""
    content = content_on_disk(GALLERY / unit)
    picture, lines = read_picture(content.lock), content.lines(path)
    if kernel is None:
        links = link_model(lines, content.lock["quotes"], picture)
    else:
        does = {
            quote
            for one in picture.passes
            for work, _ in one.work
            if work.kernel == kernel
            for quote in work.quotes
        }
        links = link_kernel(lines, tuple(does), picture.lines.get(kernel, {}), len(lines))
    return {
        line.strip(): {quote.partition("    ")[2] for quote in found}
        for line, found in zip(lines, links, strict=True)
    }


def test_the_calls_of_one_paragraph_are_told_apart():
    found = linked("attention_cpu", "model.py")
    assert found["q = F.linear(x, self.W_q.weight)"] == {"q = self.W_q(x)"}
    assert found["v = F.linear(x, self.W_v.weight)"] == {"v = self.W_v(x)"}
    assert found["kernels.exp_normalize(out, out, n_rows=batch * seq, n_cols=seq)"] == {
        "out = torch.exp(out) / torch.sum(torch.exp(out), dim=-1, keepdim=True)"
    }
    assert found["batch, seq, _ = x.shape"] == set()


@pytest.mark.parametrize(
    ("unit", "path", "add", "norm"),
    [
        (
            "gpt_cuda",
            "kernels/add_and_layer_norm.py",
            "residual = x + y",
            "rstd = tl.rsqrt(variance + eps)",
        ),
        (
            "gpt_cpu",
            "kernels/add_and_layer_norm.cpp",
            "residual_row[col] = residual_i;",
            "double row_sum = 0.0;",
        ),
    ],
)
def test_lines_of_one_kernel_are_told_apart_by_what_they_make(unit, path, add, norm):
    found = linked(unit, path, "add_and_layer_norm")
    assert found[add] == {"x = x + self.attn(self.ln_1(x))"}
    assert found[norm] == {"return x + self.mlp(self.ln_2(x))"}


@pytest.mark.parametrize(
    ("example", "is_divided"), [("gpt:small", False), ("gpt_train:small", False), ("gpt_train:small", True)]
)
def test_the_peak_is_what_torch_counts(example, is_divided, tmp_path, monkeypatch):
    """Every allocation of a call, as torch's profiler has it, beside the timeline of the lock.

    A backward pass that is divided into functions takes less: what these make dies where they return.
    """
    torch.manual_seed(0)
    if not is_divided:
        monkeypatch.setattr(derivatives, "LONGEST", 10**6)
    call = resolve(f"examples.{example}")
    is_trained = "train" in example
    unit = tmp_path / "unit"
    longhand.generate(call.model, call.args, call.kwargs, out=unit, train=is_trained, run=False)
    model = longhand.load(unit)()
    model.load_state_dict(call.model.state_dict())

    def step():
        model.zero_grad(set_to_none=True)
        with torch.set_grad_enabled(is_trained):
            result = model(*call.args)
        if is_trained:
            result.backward()

    step()
    model.zero_grad(set_to_none=True)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiled:
        step()
    live = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    held, peaks = 0, []
    for one in read_picture(content_on_disk(unit).lock).passes:
        timeline = timeline_of(one, held)
        held = timeline.held
        peaks.append(timeline.peak)
    assert peak <= max(peaks) + 64, (peaks, peak)
    assert (max(peaks) - peak <= 64) is not is_divided, (peaks, peak)


ODD = '</script><script>alert(1)</script><img src=x onerror="alert(2)">\'"&{{7*7}}\u202e'


@pytest.fixture
def project(tmp_path):
    """A project with a unit in it, whose lock and files are about to be somebody else's."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / "examples").mkdir()
    shutil.copy(ROOT / "examples/attention.py", folder / "examples/attention.py")
    shutil.copytree(GALLERY / "attention_cpu", folder / "unit")
    return folder


def change_lock(unit, change):
    lock = json.loads((unit / "longhand.lock").read_text())
    change(lock)
    (unit / "longhand.lock").write_text(json.dumps(lock))


def test_what_a_lock_and_files_say_is_text(project):
    unit = project / "unit"

    def change(lock):
        lock["source"] = ODD
        lock["quotes"][f"{ODD}    {ODD}"] = f"{ODD}:3"
        one = lock["picture"]["passes"][0]
        one["steps"][0] |= {"call": ODD, "reason": ODD, "quotes": [f"Attention.forward    {ODD}"]}
        one["buffers"][ODD] = one["buffers"]["q"]
        one["steps"][0]["writes"] = [ODD, "q"]
        one["steps"].append(
            {"repeat": [ODD, ODD], "steps": [{"call": ODD, "reads": ["q", ODD], "writes": [ODD]}]}
        )
        one["refusals"] = [{"first": "q", "second": "k", "verdict": ODD, "reason": ODD}]
        for entry in lock["ledger"].values():
            entry["title"] = ODD

    change_lock(unit, change)
    for path in ("model.py", "kernels/exp_normalize.cpp"):
        file = unit / path
        file.write_text(f"{file.read_text()}\n# {ODD}\n")
    page = is_harmless(page_text(unit, None, None, None))
    assert page.text.count("<script>alert(1)</script>") > 10
    assert "\u202e" not in page.text and "49" not in page.text.partition("{{")[2][:6]


def test_strings_of_a_unit_do_not_reach_the_script(project):
    text = page_text(project / "unit", None, None, None)
    script = text.partition("<script>")[2].partition("</script>")[0]
    assert script == (ROOT / "templates/review/page.js").read_text().strip()


SECRET = "the secret of somebody else"
BODY = f"""
class Attention:
    def forward(self, x):
        q = self.W_q(x)
        return "{SECRET}"
"""


@pytest.mark.parametrize(
    "way", ["up", "absolute", "link", "link of a folder", "no Python", "pipe", "nothing quoted"]
)
def test_no_file_is_read_but_the_project_s_own_source(project, way):
    """The lock names the file, and a lock may be a stranger's."""
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text(BODY)
    (project / "secret.env").write_text(BODY)
    (project / "other.py").write_text(BODY.replace("W_q", "W_z"))
    file = {
        "up": "../outside/secret.py",
        "absolute": str(outside / "secret.py"),
        "link": "link.py",
        "link of a folder": "link/secret.py",
        "no Python": "secret.env",
        "pipe": "pipe.py",
        "nothing quoted": "other.py",
    }[way]
    (project / "link.py").symlink_to(outside / "secret.py")
    (project / "link").symlink_to(outside)
    os.mkfifo(project / "pipe.py")

    def change(lock):
        lock["quotes"] = dict.fromkeys(lock["quotes"], f"{file}:4")

    change_lock(project / "unit", change)
    text = page_text(project / "unit", None, None, None)
    assert SECRET not in text
    assert "whose source is not here" in text and "q = self.W_q(x)" in text


def test_of_the_source_the_quoted_functions_are_shown(project):
    file = project / "examples/attention.py"
    file.write_text(f"PASSWORD = {SECRET!r}\n\n\n{file.read_text()}\n\ndef other():\n    return {SECRET!r}\n")
    text = page_text(project / "unit", None, None, None)
    assert SECRET not in text and "whose source is not here" not in text
    assert "Attention.forward" in text and "examples/attention.py" in text


def test_without_a_project_there_are_the_quotes(project, monkeypatch):
    (project / "pyproject.toml").unlink()
    for place, is_shown in ((project, True), (project / "examples", False), (Path("/"), False)):
        monkeypatch.chdir(place)
        text = page_text(project / "unit", None, None, None)
        assert ("whose source is not here" not in text) == is_shown


def test_a_unit_s_link_out_of_it_is_not_followed(project):
    (project / "secret.py").write_text(f"# {SECRET}\n")
    model = project / "unit/model.py"
    model.unlink()
    model.symlink_to(project / "secret.py")
    assert SECRET not in page_text(project / "unit", None, None, None)


def test_an_older_lock_has_no_picture_and_a_page(project):
    change_lock(project / "unit", lambda lock: lock.pop("picture"))
    page = is_harmless(page_text(project / "unit", None, None, None))
    assert "The lock is of an older longhand" in page.text


@pytest.fixture
def repository(project):
    git.run(project, "init", "-q", "-b", "main")
    git.commit(project, "first")
    kernel = project / "unit/kernels/exp_normalize.cpp"
    kernel.write_text(kernel.read_text().replace("constexpr long GRAIN = ", "constexpr long GRAIN = 2 * "))
    source = project / "examples/attention.py"
    source.write_text(source.read_text().replace("q = self.W_q(x)", "q = self.W_q(x)  # as edited"))
    git.commit(project, "edited")
    return project


def test_since_and_until(repository, tmp_path, capsys):
    unit, file = repository / "unit", tmp_path / "page.html"
    assert cli.run(["view", str(unit), "--html", str(file), "--since", "HEAD~1"]) == 0
    now = Reader(file.read_text()).text
    assert "What changed: since HEAD~1" in now and "+constexpr long GRAIN = 2 * " in now
    assert re.search(r"exp_normalize\s*changed", now) and "1 file" in now
    assert cli.run(["view", str(unit), "--html", str(file), "--since", "HEAD~1", "--until", "HEAD~1"]) == 0
    then = Reader(file.read_text()).text
    assert "No kernel changed." in then and "2 * " not in then and "as edited" not in then
    assert "as edited" in now, "the source is of the same time"
    for words, told in (
        (["--since", "nowhere"], "git knows no such revision"),
        (["--since", "--output=x"], "git knows no such revision"),
        (["--since", "HEAD", "--until", "nowhere"], "--until 'nowhere': git knows no such revision"),
        (["--until", "HEAD"], "--until goes with --since"),
    ):
        assert cli.run(["view", str(unit), "--html", str(file), *words]) == 2
        assert told in " ".join(capsys.readouterr().err.split())
    assert cli.run(["view", str(unit), "--since", "HEAD"]) == 2
    assert "go with --html or --serve" in " ".join(capsys.readouterr().err.split())


def test_times_stand_beside_bytes(project, tmp_path):
    file = tmp_path / "bench.json"
    file.write_text(
        json.dumps({"kernels": {"exp_normalize": {"ms": 0.25, "gb_per_s": 33.5, "base_ms": None}}})
    )
    found = Reader(page_text(project / "unit", None, None, file)).text
    assert "0.25 ms" in found and "33.5 GB/s" in found
    file.write_text(json.dumps({"kernels": {"exp_normalize": {"ms": "nan"}}}))
    with pytest.raises(OptionError, match="not what `longhand bench --json` prints"):
        page_text(project / "unit", None, None, file)


def test_what_is_served_is_one_page_for_this_machine():
    visits = []
    server = page_server(lambda: f"<p>visit {len(visits)}</p>{visits.append(1) or ''}", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]

    def ask(path="/", method="GET", **headers):
        one = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        one.request(method, path, headers=headers)
        answer = one.getresponse()
        return answer.status, answer.read().decode()

    try:
        assert server.server_address[0] == "127.0.0.1"
        assert ask() == (200, "<p>visit 0</p>") and ask("/?x") == (200, "<p>visit 1</p>")
        assert ask("/../longhand.lock")[0] == 404
        assert ask(Host="evil.example")[0] == 403
        assert ask(method="POST")[0] == 501
    finally:
        server.shutdown()
        server.server_close()
