// Of a big replay: the list of claims, sorted and filtered, and a claim's lanes when one is chosen.
// Its data are read when they are first needed. Text goes in as text, never as markup.
(() => {
  "use strict";
  const { tenures, marks, time, fit, zoomable, short } = globalThis.marshalReport;
  const svgNs = "http://www.w3.org/2000/svg";
  const barPx = 15, lanePx = 28, padPx = 5, beatUnits = 20000;
  const rowsAtOnce = 30, lanesAtOnce = 20, lanesAtFirst = 6, tenuresAtOnce = 100;

  const kept = new Map();
  const read = (name) => {
    if (!kept.has(name)) kept.set(name, JSON.parse(document.getElementById(`data-${name}`).textContent));
    return kept.get(name);
  };
  const index = () => read("claims");
  const text = (number) => (number === null || number === undefined ? null : index().texts[number]);
  const detailOf = (n) => {
    const { chunk } = index();
    const name = `claims-${Math.floor(n / chunk)}`;
    return document.getElementById(`data-${name}`) ? read(name)[n % chunk] : undefined;
  };

  const el = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) if (value !== undefined) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  };
  const svg = (tag, attributes, ...children) => {
    const made = document.createElementNS(svgNs, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const shown = (number) => Number(number).toLocaleString("en");
  const duration = (ms) => {
    const s = Number(ms) / 1000;
    if (!s) return "0";
    if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  };
  const claimOf = (n) => {
    const [log, place, group, topic, partition, records, errors, warnings, owners, takeovers, unowned] = index().claims[n];
    return {
      n, logNumber: log, log: text(log), place, group: text(group), topic: text(topic), partition,
      records, errors, warnings, tenures: owners, takeovers, unowned,
    };
  };
  const topicOf = (claim) => claim.topic || "(empty)";
  const nameOf = (claim) => `${topicOf(claim)}/${claim.partition}`;

  // --- the list ---

  const table = document.querySelector("table.claims");
  const body = table.tBodies[0];
  const find = document.querySelector("#claims .find");
  let by = null, down = true, limit = rowsAtOnce, group = null, chosen = null;
  const more = el("button", { type: "button", class: "more" }, "show more");
  const told = el("span", { role: "status" });
  const input = el("input", { type: "search", placeholder: "topic, group or log", "aria-label": "Filter claims by topic, group or log" });
  const drop = el("button", { type: "button", hidden: "" });
  const lanes = el("button", { type: "button", hidden: "" }, "draw these");
  find.append(input, drop, lanes, told);
  find.hidden = false;
  table.parentNode.after(more);

  const matching = () => {
    const wanted = input.value.trim().toLowerCase();
    const all = index().claims.map((_, n) => claimOf(n));
    const found = all.filter(
      (claim) =>
        (group === null || claim.group === group) &&
        (!wanted || `${nameOf(claim)} ${claim.group} ${claim.log}`.toLowerCase().includes(wanted)),
    );
    if (by !== null) {
      const sign = down ? -1 : 1;
      found.sort(
        by === "name"
          ? (a, b) => -sign * (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : Number(a.partition) - Number(b.partition))
          : (a, b) => sign * (Number(a[by]) - Number(b[by])) || a.n - b.n,
      );
    }
    return found;
  };
  const number = (value, loud) => {
    const zero = !Number(value);
    return el("td", { class: zero ? "n zero" : loud ? `n ${loud}` : "n" }, shown(value));
  };
  const rowOf = (claim) => {
    const head = el("th", { scope: "row" }, el("bdi", null, nameOf(claim)), el("small", null, el("bdi", null, `${claim.log} · ${claim.group || "(empty)"}`)));
    return el(
      "tr", { "data-claim": claim.n }, head, number(claim.records), number(claim.errors, "error"), number(claim.warnings, "warning"),
      number(claim.tenures), number(claim.takeovers), el("td", { class: Number(claim.unowned) ? "n" : "n zero" }, duration(claim.unowned)),
    );
  };
  // A claim's name becomes a button: a row alone takes no focus.
  const openable = (row) => {
    const name = row.querySelector("th bdi");
    const button = el("button", { type: "button", class: "open" });
    button.addEventListener("click", () => open([Number(row.dataset.claim)], false));
    name.replaceWith(button);
    button.append(name);
    if (Number(row.dataset.claim) === chosen) row.classList.add("chosen");
  };
  const list = () => {
    const found = matching();
    body.replaceChildren(...found.slice(0, limit).map(rowOf));
    for (const row of body.rows) openable(row);
    told.textContent = `${shown(Math.min(limit, found.length))} of ${shown(found.length)} claims`;
    more.hidden = found.length <= limit;
    lanes.hidden = (group === null && !input.value) || !found.length;
    lanes.textContent = `draw the first ${Math.min(found.length, lanesAtOnce)}`;
    drop.hidden = group === null;
    drop.textContent = group === null ? "" : `group ${group || "(empty)"} ×`;
    for (const head of table.tHead.rows[0].cells) {
      head.setAttribute("aria-sort", head.dataset.by === by ? (down ? "descending" : "ascending") : "none");
    }
  };
  for (const head of table.tHead.rows[0].cells) {
    const button = el("button", { type: "button", class: "sort" }, head.textContent);
    button.addEventListener("click", () => {
      down = by === head.dataset.by ? !down : head.dataset.by !== "name";
      by = head.dataset.by;
      limit = rowsAtOnce;
      list();
    });
    head.replaceChildren(button);
  }
  more.addEventListener("click", () => { limit += 5 * rowsAtOnce; list(); });
  let typing;
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => { limit = rowsAtOnce; list(); }, 120);
  });
  drop.addEventListener("click", () => { group = null; list(); });
  lanes.addEventListener("click", () => open(matching().map((claim) => claim.n), true));
  for (const row of body.rows) openable(row);

  // --- groups, in the heat and in their table, narrow the list ---

  for (const place of document.querySelectorAll("[data-group]")) {
    const name = place.querySelector("bdi");
    const button = el("button", { type: "button", class: "open" });
    button.addEventListener("click", () => {
      const written = place.dataset.group;
      group = written === "(empty)" ? "" : written;
      input.value = "";
      limit = rowsAtOnce;
      by = null;
      list();
      open(matching().map((claim) => claim.n), true);
    });
    name.replaceWith(button);
    button.append(name);
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-open]");
    if (!link) return;
    event.preventDefault();
    open([Number(link.dataset.open)], false);
  });

  // --- drawing ---

  const percent = (fraction) => `${+(100 * fraction).toFixed(3)}%`;
  const placer = (from, to) => (ms) => Math.min(1, Math.max(0, (Number(ms) - from) / (to - from)));
  const drawTenure = (rules, row, from, to, top) => {
    const [client, instance, begin, end, fromMs, toMs, before, after, began, ended, owner, faded] = row;
    const at = placer(from, to);
    const left = at(fromMs), right = Math.max(left, at(toMs ?? to));
    tenures.push([rules, text(client), text(instance), begin, end, fromMs, toMs, before, after, text(began), text(ended)]);
    const full = `${text(client) || "(empty)"} · ${short(text(instance) || "(empty)")}`;
    const kind = right - left < 0.003 ? " brief" : toMs === null ? " lasts" : "";
    const bar = svg(
      "svg",
      { class: `tenure ${text(owner)}${kind}`, x: percent(left), width: percent(right - left), y: top, height: barPx, "data-t": tenures.length - 1, "data-l": full },
      svg("rect", { width: "100%", height: "100%" }),
    );
    for (const [start, stop] of faded ?? []) {
      const length = right - left || 1;
      bar.append(svg("rect", { class: "stale", x: percent((at(start) - left) / length), width: percent(Math.max(0, at(stop) - at(start)) / length), height: "100%" }));
    }
    bar.append(svg("text", { x: 5, y: barPx - 4 }));
    return bar;
  };
  const drawMark = (rules, row, at, top) => {
    const [kind, offset, ms, client, instance, guard, position, said, count] = row;
    marks.push([text(kind), rules, offset, ms, text(client), text(instance), text(guard), position, text(said), count, []]);
    const x = percent(at(ms));
    const parts = [];
    if (text(kind) === "theft" || text(kind) === "pause_broken") parts.push(svg("line", { class: `stem ${text(kind)}`, x1: x, x2: x, y1: top - 3, y2: top + barPx + 1 }));
    parts.push(svg("use", { href: `#g-${text(kind)}`, class: `mark ${text(kind)}`, x, y: top + barPx + 6, "data-m": marks.length - 1 }));
    return parts;
  };
  const drawFinding = (row, at, top) => {
    const [rules, code, severity, offset, ms, sentence] = row;
    const word = ["error", "warning", "info"][severity];
    marks.push(["finding", text(rules), offset, ms, null, null, null, null, text(code), 1, [["", sentence]]]);
    return svg("use", { href: "#g-finding", class: `mark finding ${word}`, x: percent(at(ms)), y: top + barPx + 6, "data-m": marks.length - 1 });
  };
  const drawRow = (claim, detail, [from, to]) => {
    const at = placer(from, to);
    const height = detail.lanes.length * lanePx + 2 * padPx;
    const track = svg("svg", { class: "track", height, role: "group", tabindex: 0, "aria-label": `${nameOf(claim)}: ${detail.findings.length} findings` });
    detail.lanes.forEach(([rulesNumber, bars, glyphs, pauses, beats], n) => {
      const rules = text(rulesNumber);
      const top = padPx + n * lanePx;
      const middle = top + barPx / 2;
      track.append(svg("line", { class: "nobody", x1: 0, x2: "100%", y1: middle, y2: middle }));
      for (const [begin, until, sender] of pauses) {
        const left = at(begin), right = Math.max(left, at(until ?? to));
        const title = svg("title", {});
        title.textContent = `paused by ${text(sender)}${until === null ? "" : ` until ${time(until)}`}`;
        track.append(svg("rect", { class: "paused", x: percent(left), width: percent(right - left), y: top - 2, height: barPx + 4 }, title));
      }
      track.append(...bars.map((row) => drawTenure(rules, row, from, to, top)));
      if (beats) {
        track.append(
          svg("svg", { class: "beats", x: 0, y: top + barPx - 3, width: "100%", height: 3, viewBox: `0 0 ${beatUnits} 3`, preserveAspectRatio: "none" }, svg("path", { d: beats })),
        );
      }
      const offsets = new Set(glyphs.map((row) => String(row[1])));
      track.append(...glyphs.flatMap((row) => drawMark(rules, row, at, top)));
      const last = n === detail.lanes.length - 1;
      for (const row of detail.findings) {
        const mine = text(row[0]) === rules || (row[0] === null && last);
        if (mine && row[4] !== null && !offsets.has(String(row[3]))) track.append(drawFinding(row, at, top));
      }
    });
    const label = el("div", { class: "label", title: `${nameOf(claim)} of ${claim.group}` });
    label.append(el("b", null, el("bdi", null, topicOf(claim)), `/${claim.partition}`));
    const whose = el("span", { class: "lanes" });
    for (const [rules] of detail.lanes) whose.append(el("i", null, text(rules)));
    label.append(whose);
    return el("div", { class: "row" }, label, track);
  };
  const figureOf = (logNumber, drawn) => {
    const [from, to] = index().axes[logNumber].map(Number);
    const figure = el("figure", { class: "log" });
    const zoom = el("div", { class: "zoom", hidden: "" });
    figure.append(el("figcaption", null, el("h4", null, el("bdi", null, text(logNumber))), zoom));
    const block = el("div", { class: "block" });
    block.append(svg("svg", { class: "axis", "data-axis": `${from},${to}`, "aria-hidden": "true" }));
    block.append(...drawn.map(([claim, detail]) => drawRow(claim, detail, [from, to])));
    figure.append(el("div", { class: "scroll" }, el("div", { class: "wide-plot" }, block)));
    return figure;
  };

  // --- the findings and tenures of one claim, as text ---

  const findingsOf = (detail) => {
    if (!detail.findings.length) return el("p", { class: "none" }, "No finding is about this claim.");
    const items = detail.findings.map(([rules, code, severity, offset, ms, sentence]) =>
      el(
        "li", { class: ["error", "warning", "info"][severity] },
        el("b", null, text(code)), " ", el("span", { title: sentence }, short(sentence)), " ",
        el("small", null, [rules === null ? null : text(rules), offset === null ? null : `offset ${offset}`, ms === null ? null : time(ms)].filter(Boolean).join(" · ")),
      ),
    );
    return el("ol", { class: "told-findings" }, ...items);
  };
  const tenuresOf = (detail) => {
    const rows = detail.lanes.flatMap(([rules, bars]) => bars.map((bar) => [text(rules), ...bar]));
    const folded = el("details", null, el("summary", null, `${shown(rows.length)} tenures as a table`));
    folded.addEventListener("toggle", () => {
      if (!folded.open || folded.querySelector("table")) return;
      const tbody = el("tbody", null);
      let at = 0;
      const button = el("button", { type: "button" }, "show more");
      const add = () => {
        for (const [rules, client, instance, begin, end, fromMs, toMs, before, after, began, ended] of rows.slice(at, at + tenuresAtOnce)) {
          const cells = [rules, `${text(client)} · ${text(instance)}`, time(fromMs), begin, toMs === null ? "lasts" : time(toMs), end ?? "–", `${before ?? "?"} to ${after ?? "?"}`, text(began), text(ended) ?? "–"];
          tbody.append(el("tr", null, ...cells.map((cell, n) => el("td", { class: [3, 5].includes(n) ? "n" : "", title: n === 1 ? cell : undefined }, short(String(cell))))));
        }
        at += tenuresAtOnce;
        button.hidden = at >= rows.length;
      };
      button.addEventListener("click", add);
      add();
      const heads = ["rules", "owner", "from", "offset", "to", "offset", "position", "began", "ended"];
      const head = el("thead", null, el("tr", null, ...heads.map((each) => el("th", { scope: "col" }, each))));
      folded.append(el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "table: tenures" }, el("table", { class: "tenures" }, head, tbody)), button);
    });
    return folded;
  };

  const panel = document.getElementById("detail");
  const open = (numbers, many, quietly) => {
    const found = numbers.map((n) => [claimOf(n), detailOf(n)]);
    const held = found.filter(([, detail]) => detail).slice(0, lanesAtOnce);
    const parts = [];
    const byLog = new Map();
    for (const each of held) byLog.set(each[0].logNumber, [...(byLog.get(each[0].logNumber) ?? []), each]);
    for (const [log, drawn] of byLog) parts.push(figureOf(log, drawn));
    const first = found[0]?.[0];
    if (!many && first) {
      const detail = found[0][1];
      panel.querySelector(".chosen").textContent = `${nameOf(first)} of group ${first.group || "(empty)"}`;
      const numbersOf = `${shown(first.records)} records, ${shown(first.tenures)} tenures, ${shown(first.takeovers)} takeovers, unowned ${duration(first.unowned)}; coordinating partition ${first.place}.`;
      parts.unshift(el("p", { class: "note" }, numbersOf));
      if (!detail) parts.push(el("p", { class: "none" }, "Beyond the page’s budget: the tables tenures and findings have the rest."));
      else {
        if (detail.brief) parts.push(el("p", { class: "note" }, "Tenures only: marks and refused records are in the table refusals."));
        if (detail.cut) parts.push(el("p", { class: "note" }, "It has more than is shown here, which is the first of it: the tables have all."));
        parts.push(findingsOf(detail), tenuresOf(detail));
      }
    } else {
      panel.querySelector(".chosen").textContent = group === null ? "The claims found" : `Group ${group || "(empty)"}`;
      const lines = `${shown(held.length)} of ${shown(found.length)} claims are drawn.`;
      if (!quietly) parts.unshift(el("p", { class: "note" }, lines));
    }
    const owners = new Map();
    for (const [, detail] of held)
      for (const [, bars] of detail.lanes) for (const bar of bars) owners.set(text(bar[0]), text(bar[10]).replace(/s\d$/, "s0"));
    const some = [...owners].slice(0, 16).map(([client, owner]) => el("li", null, el("i", { class: `swatch ${owner}` }), el("bdi", null, client || "(empty)")));
    if (owners.size > 16) some.push(el("li", null, `and ${shown(owners.size - 16)} more`));
    panel.querySelector(".owners")?.replaceChildren(...some);
    chosen = many ? null : first?.n;
    for (const row of body.rows) row.classList.toggle("chosen", Number(row.dataset.claim) === chosen);
    panel.querySelector(".drawn").replaceChildren(...parts);
    panel.hidden = false;
    for (const figure of panel.querySelectorAll("figure.log")) zoomable(figure);
    fit(panel);
    if (quietly) return;
    panel.scrollIntoView({ block: "nearest" });
    panel.focus({ preventScroll: true });
    const { top } = panel.getBoundingClientRect();
    if (top < 0 || top > innerHeight / 2) panel.scrollIntoView({ block: "start" });
  };
  const wanted = /^#claim=(\d+)$/.exec(location.hash);
  if (wanted && Number(wanted[1]) < index().claims.length) open([Number(wanted[1])], false);
  else {
    open(index().claims.slice(0, lanesAtFirst).map((_, n) => n), true, true);
    panel.querySelector(".chosen").textContent = `The worst of ${shown(index().claims.length)} claims`;
  }
})();
