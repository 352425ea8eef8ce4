const read = (id) => JSON.parse(document.getElementById(id).textContent);
const data = read("data"), single = Object.keys(data).length === 1;
const BATCH = 50;

/** Make an element; children are elements or plain text, so nothing that a model wrote is ever parsed. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Show control characters instead of obeying them. */
const visible = (text) =>
  String(text)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/g, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

/** What the mark under the pointer stands for, beside it. */
const tip = make("div", { class: "tip", hidden: "" });
document.body.append(tip);
document.addEventListener("pointerover", ({ target, clientX, clientY }) => {
  const mark = target.closest?.("[data-tip]");
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip.replaceAll("; ", "\n");
  tip.style.left = `${Math.min(clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
});

const anchor = (run, row) => (single ? `item-${row.id}` : `item-${run.slice(4)}-${row.id}`);
const abstained = (row) => row.v.filter((code) => code < 0).length;
const votes = (row) => row.v.length;
const tied = (row) => row.a.length > 1 && row.a[0][1] === row.a[1][1];
const voteRight = (row) => row.a.length > 0 && !tied(row) && row.a[0][2] > row.a[0][1] / 2;
const filters = {
  all: () => true,
  wrong: (row) => !voteRight(row),
  rescued: (row) => voteRight(row) && row.r <= votes(row) / 2,
  split: (row) => row.a.length > 1,
  none: (row) => abstained(row) > 0,
};
const sorts = {
  n: (row) => row.n,
  split: (row) => (row.a.length ? (row.a[0][1] - (row.a[1]?.[1] ?? 0)) / votes(row) : 2),
  lead: (row) => (row.a.length ? row.a[0][0] : ""),
  g: (row) => row.g ?? "",
  r: (row) => row.r ?? -1,
};

/** Where an answer stands in a text: the last place after the words that its rule looks for, else the last place. */
const LEADS = { boxed: "boxed", "####": "####", tag: "<", marker: "answer" };
function placeOf(wanted, text, rule) {
  if (!wanted) return -1;
  const last = text.lastIndexOf(wanted), lead = LEADS[rule];
  for (let at = last; lead && at >= 0; at = at > 0 ? text.lastIndexOf(wanted, at - 1) : -1) {
    const before = text.slice(Math.max(at - 40, 0), at).toLowerCase(), from = before.lastIndexOf(lead);
    if (from >= 0 && !/[.!?]\s/.test(before.slice(from))) return at;
  }
  return last;
}

class Questions {
  constructor(section) {
    this.run = section.dataset.run;
    this.data = data[this.run];
    this.section = section;
    this.body = section.querySelector("tbody");
    this.form = section.querySelector("form");
    this.more = section.querySelector(".more button");
    this.labelled = section.querySelector("[data-sort=r]") !== null;
    this.limit = BATCH;
    this.sort = ["split", 1];
    this.open = new Set();
    for (const row of this.data.rows) row.s = [row.id, row.q ?? "", row.g ?? "", ...row.a.map((a) => a[0])].join("\n").toLowerCase();
    this.listen();
    this.note();
    this.show();
  }

  listen() {
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", () => { this.limit = BATCH; this.show(); });
    this.more.addEventListener("click", () => { this.limit += BATCH; this.show(); });
    for (const head of this.section.querySelectorAll("[data-sort]")) {
      const button = make("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => this.sortBy(head.dataset.sort));
    }
  }

  sortBy(column) {
    this.sort = [column, this.sort[0] === column ? -this.sort[1] : 1];
    for (const head of this.section.querySelectorAll("[data-sort]")) head.removeAttribute("aria-sort");
    const direction = this.sort[1] > 0 ? "ascending" : "descending";
    this.section.querySelector(`[data-sort=${column}]`).setAttribute("aria-sort", direction);
    this.show();
  }

  found() {
    const words = this.form.search.value.toLowerCase(), keep = filters[this.form.show.value];
    const [column, sign] = this.sort, value = sorts[column];
    const compare = (a, b) => (value(a) < value(b) ? -sign : value(a) > value(b) ? sign : a.n - b.n);
    return this.data.rows.filter((row) => keep(row) && row.s.includes(words)).sort(compare);
  }

  show() {
    const rows = this.found();
    this.body.replaceChildren(...rows.slice(0, this.limit).flatMap((row) => this.row(row)));
    this.more.hidden = rows.length <= this.limit;
    this.form.count.value = `${rows.length.toLocaleString("en")} of ${this.data.total.toLocaleString("en")} questions`;
  }

  row(row) {
    const open = this.open.has(row.n), id = anchor(this.run, row);
    const button = make("button", { type: "button", class: "open", "aria-expanded": open, "aria-label": `paths of ${visible(row.id)}` }, open ? "–" : "+");
    button.addEventListener("click", () => this.toggle(row, id));
    const name = make("td", { class: "name" }, make("span", { class: "ask" }, visible(row.q ?? row.id)));
    if (row.q && row.q !== row.id) name.append(make("a", { class: "id", href: `#${encodeURIComponent(id)}` }, visible(row.id)));
    const winner = row.a.length ? visible(row.a[0][0]) + (tied(row) ? " (tied)" : "") : "none";
    const cells = [make("td", {}, button), name, make("td", {}, this.bar(row)), make("td", { class: "answer", "data-label": "winner" }, winner)];
    if (this.labelled) cells.push(make("td", { class: "answer", "data-label": "gold" }, visible(row.g ?? "")), make("td", { "data-label": "right" }, `${row.r} of ${votes(row)}`));
    const line = make("tr", { id }, ...cells);
    return open ? [line, make("tr", { class: "detail" }, this.detail(row, cells.length))] : [line];
  }

  toggle(row, id) {
    if (!this.open.delete(row.n)) this.open.add(row.n);
    this.show();
    document.getElementById(id)?.querySelector("button").focus({ preventScroll: true });
  }

  kind(answer) {
    return this.labelled ? (answer[2] > answer[1] / 2 ? "right" : "wrong") : "";
  }

  bar(row) {
    const parts = row.a.map((answer) => [answer[1], this.kind(answer), answer[0]]);
    if (abstained(row)) parts.push([abstained(row), "none", "no answer"]);
    const words = parts.map(([count, kind, text]) => `${count} × ${visible(text)}${kind === "right" || kind === "wrong" ? `, ${kind}` : ""}`).join("; ");
    const bar = make("div", { class: "bar", role: "img", "aria-label": words.slice(0, 400), title: words.slice(0, 400) });
    for (const [count, kind] of parts) {
      const part = make("i", { class: kind });
      part.style.flexGrow = count;
      bar.append(part);
    }
    return bar;
  }

  detail(row, span) {
    const cell = make("td", { colspan: span });
    if (row.q) cell.append(make("h4", {}, "Question"), make("pre", { dir: "auto", tabindex: "0" }, visible(row.q)));
    cell.append(make("h4", {}, "Votes"), this.chips(row.a.map((answer) => [`${answer[1]} × ${visible(answer[0])}`, this.kind(answer)])));
    if (row.p) row.p.forEach((path, place) => cell.append(...this.path(row, path, place)));
    else {
      const order = row.v.map((code) => (code < 0 ? ["no answer", "none"] : [visible(row.a[code][0]), this.kind(row.a[code])]));
      cell.append(make("h4", {}, "Paths, in the order drawn"), this.chips(order));
      if (this.data.has_texts) cell.append(make("p", { class: "note" }, "The raw texts of this question are not in the sample that this page holds."));
    }
    return cell;
  }

  chips(entries) {
    return make("ul", { class: "chips" }, ...entries.map(([text, kind]) => make("li", { class: kind, dir: "auto", title: text.slice(0, 300) }, text + (kind === "right" ? " ✓" : ""))));
  }

  path(row, [text, answer, rule, tokens], place) {
    const code = row.v[place], verdict = code < 0 ? "no answer" : `answer ${visible(answer ?? "")}${this.labelled ? `, ${this.kind(row.a[code])}` : ""}`;
    const head = [`Path ${place + 1}`, verdict, rule && `${code < 0 ? "because" : "found by"}: ${rule}`, tokens !== null && `${tokens} tokens`].filter(Boolean);
    const shown = visible(text), wanted = answer === null ? "" : visible(answer), at = placeOf(wanted, shown, rule);
    const pre = make("pre", { dir: "auto", tabindex: "0" });
    if (at < 0) pre.append(shown);
    else pre.append(shown.slice(0, at), make("mark", {}, wanted), shown.slice(at + wanted.length));
    return [make("p", { class: "path" }, head.join(" · ")), pre];
  }

  note() {
    const { rows, total, texts, has_texts } = this.data, note = this.section.querySelector(".sample");
    const parts = [];
    if (rows.length < total) parts.push(`To keep this file small, ${rows.length.toLocaleString("en")} of ${total.toLocaleString("en")} questions are here: the most contested, and a random sample.`);
    if (has_texts && texts < rows.length) parts.push(`Raw texts are here for a random sample of ${texts.toLocaleString("en")} questions; the run holds all of them.`);
    note.textContent = parts.join(" ");
    note.hidden = parts.length === 0;
  }

  /** Bring the item of an anchor into the table, open. */
  reveal(id) {
    const row = this.data.rows.find((one) => anchor(this.run, one) === id);
    if (!row) return false;
    this.form.search.value = "";
    this.form.show.value = "all";
    this.open.add(row.n);
    this.limit = Math.max(this.limit, this.found().indexOf(row) + 1);
    this.show();
    const line = document.getElementById(id);
    line.classList.add("target");
    line.scrollIntoView({ block: "start" });
    line.querySelector("button").focus({ preventScroll: true });
    return true;
  }
}

for (const button of document.querySelectorAll(".copier")) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source); // without permission the rule is selected, to be copied by hand
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = label), 2000);
  });
}

const tables = [...document.querySelectorAll(".questions")].map((section) => new Questions(section));

function follow() {
  let id = location.hash.slice(1);
  try { id = decodeURIComponent(id); } catch { /* an id with a bare percent sign stands for itself */ }
  if (id.startsWith("item-")) tables.some((table) => table.reveal(id));
}

window.addEventListener("hashchange", follow);
follow();
window.addEventListener("load", () => setTimeout(follow)); // the browser looks for the anchor itself, and takes the focus
document.documentElement.dataset.ready = "yes";
