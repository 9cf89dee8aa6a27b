// Tooltips, keys, zoom, and labels that fit. The page is complete without any of it.
(() => {
  "use strict";
  const { tenures, marks } = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const svgNs = "http://www.w3.org/2000/svg";

  // --- what a tooltip says: always text, never markup ---

  const time = (ms) => {
    const date = new Date(Number(ms));
    return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString().replace("T", " ").replace("Z", "");
  };
  // Of an id made by chance eight digits are shown, the whole on hover; as in pieces.py.
  const randomId = /(?<![\w-])(?=[\da-f-]*[a-f])(?=[\da-f-]{16})[\da-f]{8}(?:-?[\da-f])+(?![\w-])/g;
  const short = (text) => text.replace(randomId, (id) => id.slice(0, 8));
  const owner = (client, instance) => `${client || "(empty)"} · ${instance || "(empty)"}`;

  const ofTenure = ([rules, client, instance, from, to, fromMs, toMs, before, after, began, ended]) => [
    owner(client, instance),
    [
      ["rules", rules],
      ["from", `${time(fromMs)}, offset ${from}`],
      ["", began],
      ["to", to === null ? "the end of the log" : `${time(toMs)}, offset ${to}`],
      ["", ended],
      ["position", before === null && after === null ? null : before === after ? before : `${before ?? "?"} to ${after ?? "?"}`],
    ],
  ];
  const ofMark = ([kind, rules, offset, ms, client, instance, guard, position, told, count, findings]) => [
    told.charAt(0).toUpperCase() + told.slice(1) + (count > 1 ? `, ${count} records` : ""),
    [
      ["because", guard],
      ["rules", rules],
      ["offset", offset],
      ["time", time(ms)],
      ["sender", client === null && instance === null ? null : owner(client, instance)],
      ["position", position],
      ...findings.map(([number, sentence]) => [`finding ${number}`, sentence]),
    ],
  ];

  const show = (item, x, y) => {
    const [title, pairs] = item.dataset.t === undefined ? ofMark(marks[item.dataset.m]) : ofTenure(tenures[item.dataset.t]);
    const head = document.createElement("p");
    head.textContent = title;
    const list = document.createElement("dl");
    for (const [name, value] of pairs) {
      if (value === null || value === undefined) continue;
      for (const [tag, text] of [["dt", name], ["dd", value]]) {
        const part = document.createElement(tag);
        part.textContent = text;
        list.append(part);
      }
    }
    tip.replaceChildren(head, list);
    tip.hidden = false;
    tip.style.left = tip.style.top = "0";
    const box = tip.getBoundingClientRect();
    const left = Math.min(x + 12, innerWidth - box.width - 8);
    const below = y + 16 + box.height < innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, below ? y + 16 : y - box.height - 12)}px`;
  };
  const hide = () => {
    tip.hidden = true;
    for (const item of document.querySelectorAll(".at")) item.classList.remove("at");
  };

  for (const title of document.querySelectorAll(".track title")) {
    if (title.parentNode.matches("[data-t], [data-m]")) title.remove();
  }
  const itemOf = (event) => event.target.closest?.("[data-t], [data-m]");
  document.addEventListener("pointermove", (event) => {
    const item = itemOf(event);
    if (item) show(item, event.clientX, event.clientY);
    else if (!document.querySelector(".at")) hide();
  });

  // --- keys: a row takes the focus, arrows walk along its bars and marks in order of time ---

  const xOf = (item) => item.getBoundingClientRect().left;
  const select = (item) => {
    hide();
    item.classList.add("at");
    item.scrollIntoView({ block: "nearest", inline: "nearest" });
    const box = item.getBoundingClientRect();
    show(item, Math.max(box.left, 0), box.bottom - 8);
    tip.setAttribute("aria-live", "polite");
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    const track = event.target.closest?.(".track");
    if (!track) return;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const items = [...track.querySelectorAll("[data-t], [data-m]")].sort((a, b) => xOf(a) - xOf(b));
      const at = items.findIndex((item) => item.classList.contains("at"));
      const next = items[at < 0 ? (step > 0 ? 0 : items.length - 1) : at + step];
      if (next) select(next);
      event.preventDefault();
    } else if (event.key === "+" || event.key === "-") {
      zoomBy(track.closest("figure"), event.key === "+" ? 2 : 0.5);
      event.preventDefault();
    }
  });
  document.addEventListener("focusout", hide);

  const arrive = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let folded = target.closest("details"); folded; folded = folded.parentNode.closest("details")) folded.open = true;
    target.scrollIntoView({ block: "nearest" });
    if (target.matches(".row.quiet, .row.quiet *")) document.body.classList.remove("only-eventful");
    if (target.matches("[data-m]")) {
      target.scrollIntoView({ block: "center", inline: "center" });
      target.closest(".track").focus({ preventScroll: true });
      select(target);
    }
  };
  addEventListener("hashchange", arrive);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) setTimeout(arrive);
  });

  // --- the axis and the labels, for the width there is ---

  const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
  const steps = [
    1, 2, 5, 10, 20, 50, 100, 200, 500,
    ...[1, 2, 5, 10, 15, 30].map((n) => n * second),
    ...[1, 2, 5, 10, 15, 30].map((n) => n * minute),
    ...[1, 2, 3, 6, 12].map((n) => n * hour),
    ...[1, 2, 7, 14, 28, 91, 365].map((n) => n * day),
  ];
  const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  const label = (ms, step) => {
    const date = new Date(ms);
    if (Number.isNaN(date.getTime())) return ms.toExponential(3);
    const iso = date.toISOString();
    const clock = iso.slice(iso.indexOf("T") + 1);
    if (step >= 300 * day) return `${months[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
    if (step >= day || (ms % day === 0 && step >= hour)) return `${date.getUTCDate()} ${months[date.getUTCMonth()]}`;
    if (step >= minute) return clock.slice(0, 5);
    return step >= second ? clock.slice(0, 8) : clock.slice(0, 12);
  };
  const narrow = matchMedia("(max-width: 46rem)");
  const drawAxis = (axis) => {
    const [from, to] = axis.dataset.axis.split(",").map(Number);
    const width = axis.getBoundingClientRect().width;
    if (!width || !(to > from)) return;
    const step = steps.find((s) => (s / (to - from)) * width >= (s < second ? 100 : 76));
    if (!step) return;
    const parts = [];
    for (let ms = Math.ceil(from / step) * step; ms <= to; ms += step) {
      const x = `${(100 * (ms - from)) / (to - from)}%`;
      const line = document.createElementNS(svgNs, "line");
      for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 20, y2: "100%" })) line.setAttribute(name, value);
      const text = document.createElementNS(svgNs, "text");
      text.setAttribute("x", x);
      text.setAttribute("y", 13);
      const at = ((ms - from) / (to - from)) * width;
      if (at > width - 28) text.style.textAnchor = "end";
      else if (at < 28 && narrow.matches) text.style.textAnchor = "start";
      text.textContent = label(ms, step);
      parts.push(line, text);
    }
    axis.replaceChildren(...parts);
  };
  // A bar that begins left of what is in view says its name at the edge of the view.
  const fitLabels = (root) => {
    const views = root.matches?.(".scroll") ? [root] : [...root.querySelectorAll(".scroll")];
    const plans = [];
    for (const view of views) {
      const edge = view.getBoundingClientRect();
      const column = narrow.matches ? 0 : (view.querySelector(".label")?.offsetWidth ?? 0);
      const left = edge.left + column;
      for (const bar of view.querySelectorAll(".tenure")) {
        const box = bar.firstElementChild.getBoundingClientRect();
        const hidden = Math.max(0, left - box.left);
        const room = Math.min(box.right, edge.right) - Math.max(box.left, left) - 8;
        plans.push([bar, hidden, room]);
      }
    }
    for (const [bar, hidden, room] of plans) {
      const full = bar.dataset.l;
      const short = full.slice(0, full.lastIndexOf(" · "));
      const text = bar.querySelector("text");
      text.textContent = [full, short].find((choice) => choice.length * 5.9 <= room) ?? "";
      text.setAttribute("x", hidden + 5);
    }
  };
  const fit = (root) => {
    for (const axis of root.querySelectorAll(".axis")) drawAxis(axis);
    fitLabels(root);
  };

  // --- zoom ---

  const zoomMax = 256;
  const zoomOf = (figure) => Number(figure.style.getPropertyValue("--zoom") || 1);
  const zoomBy = (figure, factor, clientX) => {
    const scroll = figure.querySelector(".scroll");
    const before = zoomOf(figure);
    const after = Math.min(zoomMax, Math.max(1, before * factor));
    if (after === before) return;
    const track = figure.querySelector(".axis").getBoundingClientRect();
    const view = scroll.getBoundingClientRect();
    const at = Math.min(Math.max(clientX ?? (Math.max(track.left, view.left) + view.right) / 2, track.left), view.right);
    const share = (at - track.left) / track.width;
    figure.style.setProperty("--zoom", after);
    const now = figure.querySelector(".axis").getBoundingClientRect();
    scroll.scrollLeft += now.left + share * now.width - at;
    figure.querySelector("[data-zoom='-']").disabled = figure.querySelector("[data-zoom='1']").disabled = after === 1;
    hide();
    fit(figure);
  };
  const zoomable = (figure) => {
    const bar = figure.querySelector(".zoom");
    for (const [sign, text, told] of [["-", "−", "Zoom out"], ["1", "fit", "Whole span"], ["+", "+", "Zoom in"]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.zoom = sign;
      button.textContent = text;
      button.setAttribute("aria-label", told);
      button.disabled = sign !== "+";
      button.addEventListener("click", () => zoomBy(figure, { "-": 0.5, 1: 0, "+": 2 }[sign]));
      bar.append(button);
    }
    bar.hidden = false;
    const scroll = figure.querySelector(".scroll");
    let drawing = false;
    scroll.addEventListener("scroll", () => {
      if (drawing) return;
      drawing = true;
      requestAnimationFrame(() => {
        drawing = false;
        fitLabels(scroll);
      });
    });
    scroll.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        zoomBy(figure, event.deltaY < 0 ? 1.3 : 1 / 1.3, event.clientX);
      },
      { passive: false },
    );
  };
  for (const figure of document.querySelectorAll("figure.log")) zoomable(figure);

  // --- leaving out the rows in which nothing happened ---

  const rows = document.querySelectorAll(".row").length;
  const quiet = document.querySelectorAll(".row.quiet").length;
  const legend = document.querySelector(".legend");
  if (legend && quiet && quiet < rows) {
    const line = document.createElement("label");
    line.className = "quiet-too";
    const box = document.createElement("input");
    box.type = "checkbox";
    box.addEventListener("change", () => document.body.classList.toggle("only-eventful", box.checked));
    line.append(box, `hide the ${quiet} of ${rows} rows in which nothing happened`);
    legend.after(line);
  }

  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => fit(document), 100);
  });
  fit(document);
  arrive();

  // What draws later (explore.js) tells here what its bars and marks say.
  globalThis.marshalReport = { tenures, marks, time, fit, zoomable, short };
})();
