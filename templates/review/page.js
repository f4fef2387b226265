"use strict";
(() => {
  const every = (selector, from = document) => [...from.querySelectorAll(selector)];
  const told = document.getElementById("told");
  const panes = every(".pane");
  const kernels = every(".kernel");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const byStatement = new Map(); // number of a statement -> what came from it, and where it stands
  for (const one of every("[data-s]")) {
    for (const number of one.dataset.s.split(" ")) {
      if (!byStatement.has(number)) byStatement.set(number, []);
      byStatement.get(number).push(one);
    }
  }
  let lit = [], held = null, waiting = 0;

  const dim = () => {
    clearTimeout(waiting);
    for (const one of lit) one.classList.remove("lit", "whole", "on");
    lit = [];
    told.textContent = "";
  };
  const add = (one, word = "lit") => {
    one.classList.add(word);
    lit.push(one);
  };

  const lightBoxes = (boxes) => {
    for (const line of every(".edge, .label")) {
      if (boxes.has(line.dataset.f) || boxes.has(line.dataset.t)) add(line, "on");
    }
  };
  const light = (from) => {
    dim();
    const numbers = (from.dataset.s || "").split(" ").filter(Boolean);
    for (const number of numbers) for (const one of byStatement.get(number) || []) add(one);
    for (const kernel of kernels) {
      const does = kernel.dataset.k.split(" ");
      if (!numbers.some((number) => does.includes(number))) continue;
      add(kernel);
      if (!kernel.querySelector(".l.lit")) add(kernel, "whole");
    }
    const box = from.closest(".box");
    if (box) lightBoxes(new Set([box.dataset.box]));
    tell();
    // What is far away in another pane comes into view, if one stays.
    waiting = setTimeout(() => show(from), held ? 0 : 220);
  };

  const counted = (pane) => every(".l.lit", document.getElementById(pane)).length;
  const tell = () => {
    if (!lit.length) return;
    const names = kernels.filter((one) => one.classList.contains("lit")).map((one) => one.id.slice(7));
    const lines = (count) => `${count} line${count === 1 ? "" : "s"}`;
    const where = names.length ? `kernel${names.length > 1 ? "s" : ""} ${names.join(", ")}` : "";
    const found = [`${lines(counted("source"))} of the model`, `${lines(counted("model"))} of what runs`];
    told.textContent = [...found, where || (counted("model") ? "no kernel: a library does it" : "no kernel")].join(", ");
  };
  const show = (from) => {
    for (const pane of panes) {
      if (pane.contains(from)) continue;
      // The line of a header that quotes the statement says less than the code that does it.
      const quotes = every(".kernel.lit", pane).map((kernel) => every(".l.lit", kernel)).filter(
        (found) => found.length > 1 && found[0].nextElementSibling !== found[1]).map((found) => found[0]);
      const targets = every(".l.lit, .kernel.whole", pane).filter((one) => !quotes.includes(one));
      const frame = pane.getBoundingClientRect();
      const seen = (one) => {
        const place = one.getBoundingClientRect();
        return place.top >= frame.top + 40 && place.top <= frame.bottom - 30;
      };
      if (!targets.length || targets.some(seen)) continue;
      const top = targets[0].getBoundingClientRect().top - frame.top + pane.scrollTop - frame.height / 4;
      pane.scrollTo({ top, behavior: calm.matches ? "auto" : "smooth" });
    }
  };

  const linked = (event) => event.target.closest("[data-s]");
  const follow = (event) => {
    const one = linked(event);
    if (!held && one) light(one);
  };
  document.addEventListener("pointerover", (event) => { if (event.pointerType !== "touch") follow(event); });
  document.addEventListener("focusin", follow);
  document.addEventListener("pointerout", (event) => {
    if (!held && linked(event) && !event.relatedTarget?.closest?.("[data-s]")) dim();
  });
  document.addEventListener("focusout", () => { if (!held) dim(); });

  const hold = (one) => {
    const again = held === one;
    held = null;
    dim();
    if (again || !one) return;
    held = one;
    light(one);
  };
  document.addEventListener("click", (event) => {
    if (event.target.closest("a, summary, nav")) return;
    if (String(getSelection())) return; // somebody copies
    hold(linked(event));
  });

  // Inside of a pane the arrows go from statement to statement.
  const step = (pane, way) => {
    const begins = every("[data-b]", pane).filter((one) => one.offsetParent);
    const at = begins.indexOf(document.activeElement);
    const next = begins[at < 0 ? (way > 0 ? 0 : begins.length - 1) : at + way];
    if (!next) return;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hold(null);
    if (event.key === "Enter" && document.activeElement?.matches(".l[data-b], .box")) {
      hold(document.activeElement);
    }
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const pane = document.activeElement?.closest(".pane");
    if (!way || !pane || event.altKey || event.ctrlKey || event.metaKey) return;
    held = null;
    event.preventDefault();
    step(pane, way);
  });

  for (const reason of every("[data-two]")) {
    const boxes = () => reason.dataset.two.split(" ").map((name) => document.getElementById(`box-${name.replace(".", "-")}`));
    const on = () => boxes().forEach((box) => box?.classList.add("two"));
    const off = () => boxes().forEach((box) => box?.classList.remove("two"));
    for (const event of ["pointerenter", "focus"]) reason.addEventListener(event, on);
    for (const event of ["pointerleave", "blur"]) reason.addEventListener(event, off);
  }
  // A link to a kernel scrolls its pane, too.
  addEventListener("hashchange", () => {
    const kernel = document.querySelector(`.kernel[id="${CSS.escape(decodeURIComponent(location.hash.slice(1)))}"]`);
    if (kernel) kernel.closest(".pane").scrollTo({ top: kernel.offsetTop - 50 });
  });
})();
