// Keyboard, selection, the tree, live parts. Every page also works without it.
"use strict";

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const visible = (element) => element.offsetParent !== null;

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("assay-theme", theme); } catch { /* the choice then lasts as long as the page */ }
  document.dispatchEvent(new Event("themechange"));
}

// Rows: j and k move, Enter opens.
let current = -1;
const rows = () => $$("[data-row]").filter(visible);
function moveTo(index) {
  const all = rows();
  if (!all.length) return;
  current = Math.max(0, Math.min(all.length - 1, index));
  $$("[data-row].current").forEach((row) => row.classList.remove("current"));
  const row = all[current];
  row.classList.add("current");
  ($("[data-open]", row) || $("a", row))?.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}
const step = (by) => {
  const all = rows();
  const at = all.findIndex((row) => row.classList.contains("current"));
  moveTo(at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by);
};
const follow = (selector) => { const link = $$(selector).find(visible) || $(selector); if (link) { link.click(); return true; } return false; };

const keys = {
  j: () => (rows().length ? step(1) : follow("[data-next]")),
  k: () => (rows().length ? step(-1) : follow("[data-prev]")),
  "[": () => follow("[data-prev]"),
  "]": () => follow("[data-next]"),
  ArrowLeft: () => !rows().length && follow("[data-prev]"),
  ArrowRight: () => !rows().length && follow("[data-next]"),
  u: () => follow("[data-up]"),
  t: switchTheme,
  "?": () => $("#help").showModal(),
  "/": () => { const box = $("[data-search]"); if (box) { box.focus(); box.select(); } },
  w: () => {
    const select = $("[data-only]");
    if (!select) return;
    select.value = select.value === "wrong" ? "" : "wrong";
    select.form.requestSubmit();
  },
  x: () => {
    const tick = $("[data-row].current input[type=checkbox]");
    if (tick) { tick.checked = !tick.checked; tick.dispatchEvent(new Event("change", { bubbles: true })); }
  },
  c: () => { const dock = $("[data-dock]"); if (dock && !dock.hidden) $("button", dock).click(); },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
  if (typing) { if (event.key === "Escape") event.target.blur(); return; }
  const action = keys[event.key];
  if (action) { if (action() !== false) event.preventDefault(); }
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-toggle]")) switchTheme();
  if (event.target.closest("[data-help]")) $("#help").showModal();
  const row = event.target.closest("tr[data-row]");
  if (row && !event.target.closest("a, button, input, summary, label") && !String(getSelection())) {
    if (row.closest(".runs, .samples")) $("[data-open]", row)?.click();
  }
});

// Forms that answer at once: a choice submits; empty fields stay out of the address.
$$("form[data-auto]").forEach((form) => {
  form.addEventListener("change", (event) => { if (event.target.matches("select, input[type=checkbox], input[type=date]")) form.requestSubmit(); });
  form.addEventListener("submit", () => {
    $$("input, select", form).forEach((field) => { if (field.name && !field.value) field.disabled = true; });
  });
});
// The back button brings the page back as it was left, disabled fields included.
addEventListener("pageshow", () => $$("form[data-auto] [disabled]").forEach((field) => { field.disabled = false; }));

// Links to this very view in another form.
$$("[data-download] a").forEach((link) => {
  const address = new URL(location.href);
  address.searchParams.set("download", link.dataset.format);
  link.href = address.pathname + address.search;
});

// Selected runs.
const selection = $("[data-select]");
if (selection) {
  const dock = $("[data-dock]", selection);
  const update = () => {
    const chosen = $$("input[name=run]:checked", selection).length;
    if (!dock) return;
    dock.hidden = chosen < 2;
    $("[data-count]", dock).textContent = `${chosen} selected`;
  };
  selection.addEventListener("change", update);
  addEventListener("pageshow", update);
}

// The tree: what is closed is in the address, so that it can be shared.
const tree = $("[data-tree-table]");
if (tree) {
  const lines = $$("tr[data-id]", tree);
  const byId = new Map(lines.map((line) => [line.dataset.id, line]));
  const closed = new Set((new URLSearchParams(location.search).get("closed") || "").split(",").filter(Boolean));
  const isHidden = (line) => {
    for (let up = line.dataset.parent; up !== undefined; up = byId.get(up)?.dataset.parent) {
      if (closed.has(byId.get(up)?.dataset.name)) return true;
    }
    return false;
  };
  const draw = () => {
    lines.forEach((line) => {
      line.hidden = isHidden(line);
      $(".twist[aria-expanded]", line)?.setAttribute("aria-expanded", String(!closed.has(line.dataset.name)));
    });
    const address = new URL(location.href);
    if (closed.size) address.searchParams.set("closed", [...closed].join(",")); else address.searchParams.delete("closed");
    if (location.protocol !== "file:") history.replaceState(null, "", address);
  };
  const parents = lines.filter((line) => $(".twist[aria-expanded]", line)).map((line) => line.dataset.name);
  tree.addEventListener("click", (event) => {
    const twist = event.target.closest(".twist[aria-expanded]");
    if (!twist) return;
    const name = twist.closest("tr").dataset.name;
    if (closed.has(name)) closed.delete(name); else closed.add(name);
    draw();
  });
  $$("[data-tree]").forEach((button) => button.addEventListener("click", () => {
    closed.clear();
    if (button.dataset.tree === "close") parents.forEach((name) => closed.add(name));
    draw();
  }));
  draw();
}

// A static copy searches the rows it has.
const local = $("[data-filter-rows]");
if (local) {
  const apply = () => {
    const words = $("[data-search]", local).value.toLowerCase().split(/\s+/).filter(Boolean);
    const only = $("[data-only-rows]", local).value;
    $$("tr[data-row]").forEach((row) => {
      const text = row.textContent.toLowerCase();
      const score = row.dataset.score === "" ? null : Number(row.dataset.score);
      const fits = only === "" || (only === "wrong" && score !== null && score < 0.5) || (only === "right" && score !== null && score >= 0.5) || (only === "flagged" && Number(row.dataset.flags) > 0);
      row.hidden = !fits || !words.every((word) => text.includes(word));
    });
  };
  local.addEventListener("input", apply);
  local.addEventListener("submit", (event) => event.preventDefault());
}

// Live parts.
const live = $("[data-live]");
if (live) {
  const refresh = async () => {
    const answer = await fetch(live.dataset.live).catch(() => null);
    if (answer?.ok) {
      // The part comes from this server, where everything in it was escaped; parsing it runs no script.
      const part = new DOMParser().parseFromString(await answer.text(), "text/html").body.firstElementChild;
      if (part.dataset.finished === "yes") { location.reload(); return; }
      live.replaceChildren(part);
    }
    setTimeout(refresh, 2000);
  };
  setTimeout(refresh, 2000);
}
const again = $("[data-reload]");
if (again) setTimeout(() => { if (!$("input:checked, :focus[data-search]")) location.reload(); }, 1000 * Number(again.dataset.reload));
