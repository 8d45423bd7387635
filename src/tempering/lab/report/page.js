"use strict";
// The page's own script: the theme, copies, downloads, and pictures of the draws. It fetches nothing.
(() => {
  const root = document.documentElement;
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes = {}, parent = null, text = null) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const redraws = [];
  const redraw = () => redraws.forEach((draw) => draw());

  document.querySelector("[data-theme-switch]")?.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // Copies and downloads.
  document.querySelectorAll("[data-copy]").forEach((button) =>
    button.addEventListener("click", async () => {
      const text = button.parentNode.querySelector("pre").textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const range = document.createRange();
        range.selectNodeContents(button.parentNode.querySelector("pre"));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    })
  );
  const save = (svg, name) => {
    // Colours of the light page, whatever the theme: a paper is white.
    const style = getComputedStyle(root);
    const light = { "--ink": "#1f2328", "--muted": "#59636e", "--line": "#d8dee4", "--page": "#ffffff",
      "--draws": "#0072b2", "--draws-soft": "#0072b240", "--reference": "#b84e00" };
    const copy = svg.cloneNode(true);
    copy.removeAttribute("style");
    const text = new XMLSerializer().serializeToString(copy)
      .replace(/var\(--c([0-9a-f]{6})\)/g, "#$1")
      .replace(/var\((--[a-z-]+)\)/g, (_, key) => light[key] || style.getPropertyValue(key).trim());
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.download = `${name}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  document.querySelectorAll("[data-svg]").forEach((button) =>
    button.addEventListener("click", () => save(button.closest("figure").querySelector("svg"), button.dataset.svg))
  );

  // The draws.
  const box = document.querySelector("[data-explorer]");
  if (!box) return;
  const given = JSON.parse(box.querySelector("[data-draws]").textContent);
  const unpack = (text) => new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const columns = given.values.map(unpack);
  const byWeight = unpack(given.weights);
  const even = new Float32Array(given.num).fill(1 / given.num);
  const logDensity = given.logDensity ? unpack(given.logDensity) : null;
  const names = given.names;
  const MOST = 6;
  let chosen = names.slice(0, Math.min(names.length, innerWidth < 600 ? 3 : 4)).map((_, k) => k);
  let isWeighted = given.isWeighted;
  const shares = () => (isWeighted ? byWeight : even);
  const reading = box.querySelector("[data-reading]");
  const corner = box.querySelector("[data-corner]");
  const large = box.querySelector("[data-large]");
  const detail = box.querySelector("[data-detail]");

  const say = (value) => (value === 0 ? "0" : Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(2) : String(+value.toPrecision(4)));
  const windowOf = (k) => {
    const order = [...columns[k].keys()].sort((a, b) => columns[k][a] - columns[k][b]);
    const w = byWeight;
    let total = 0;
    let low = columns[k][order[0]];
    let high = columns[k][order[order.length - 1]];
    let isLow = false;
    for (const i of order) {
      total += w[i];
      if (!isLow && total >= 0.001) { low = columns[k][i]; isLow = true; }
      if (total <= 0.999) high = columns[k][i];
    }
    const pad = 0.06 * (high - low) || Math.max(1e-6, 0.05 * Math.abs(low));
    return [low - pad, high + pad];
  };
  const windows = new Map();
  const view = (k) => windows.get(k) || windows.set(k, windowOf(k)).get(k);
  const ticksOf = ([low, high], most) => {
    const raw = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const ticks = [];
    for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) ticks.push(Math.abs(t) < 1e-9 * step ? 0 : t);
    return ticks;
  };
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const histogram = (k, [low, high], num, w) => {
    const counts = new Float64Array(num);
    const x = columns[k];
    for (let i = 0; i < x.length; i++) {
      const cell = Math.floor(((x[i] - low) / (high - low)) * num);
      if (cell >= 0 && cell < num) counts[cell] += w[i];
    }
    return counts;
  };
  const stairs = (counts, width, height, top) => {
    const step = width / counts.length;
    return [...counts].map((c, k) => `V${(height * (1 - (0.94 * c) / top)).toFixed(1)}H${((k + 1) * step).toFixed(1)}`).join("");
  };
  // A picture of the density of a pair, smoothed, as a data URL: transparent where there is nothing.
  const cloud = (j, i, limits, cells) => {
    const counts = new Float64Array(cells * cells);
    const w = shares();
    const [[xl, xh], [yl, yh]] = limits;
    for (let n = 0; n < w.length; n++) {
      const a = Math.floor(((columns[j][n] - xl) / (xh - xl)) * cells);
      const b = Math.floor(((columns[i][n] - yl) / (yh - yl)) * cells);
      if (a >= 0 && a < cells && b >= 0 && b < cells) counts[(cells - 1 - b) * cells + a] += w[n];
    }
    const kernel = [0.25, 0.5, 0.25];
    for (const stride of [1, cells]) {
      const from = counts.slice();
      for (let n = 0; n < counts.length; n++) {
        let sum = 0;
        for (let d = -1; d <= 1; d++) {
          const m = n + d * stride;
          const isInside = stride === 1 ? Math.floor(m / cells) === Math.floor(n / cells) : m >= 0 && m < counts.length;
          if (isInside) sum += kernel[d + 1] * from[m];
        }
        counts[n] = sum;
      }
    }
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = cells;
    const context = canvas.getContext("2d");
    const image = context.createImageData(cells, cells);
    const top = Math.max(...counts) || 1;
    const hex = colour("--draws");
    const rgb = [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
    counts.forEach((c, n) => {
      image.data.set([...rgb, Math.round(255 * Math.sqrt(c / top))], 4 * n);
    });
    context.putImageData(image, 0, 0);
    return canvas.toDataURL();
  };

  const axis = (parent, k, limits, size, isX, most = 3) => {
    for (const t of ticksOf(limits, most)) {
      const at = ((t - limits[0]) / (limits[1] - limits[0])) * size;
      if (at < 0 || at > size) continue;
      if (isX) {
        make("path", { d: `M${at} ${size}v4`, stroke: "var(--muted)" }, parent);
        make("text", { x: at, y: size + 15, "text-anchor": "middle", fill: "var(--ink)" }, parent, say(t));
      } else {
        make("path", { d: `M0 ${size - at}h-4`, stroke: "var(--muted)" }, parent);
        make("text", { x: -7, y: size - at + 4, "text-anchor": "end", fill: "var(--ink)" }, parent, say(t));
      }
    }
  };
  const marginal = (group, k, limits, width, height, num) => {
    const counts = histogram(k, limits, num, shares());
    const raw = histogram(k, limits, num, even);
    const top = Math.max(...counts, ...(isWeighted ? raw : [0])) || 1;
    make("path", { d: `M0 ${height}${stairs(counts, width, height, top)}V${height}Z`, fill: "var(--draws-soft)", stroke: "var(--draws)", "stroke-width": 1.2 }, group);
    if (isWeighted) make("path", { d: `M0 ${height}${stairs(raw, width, height, top)}`, fill: "none", stroke: "var(--muted)", "stroke-width": 0.9 }, group);
  };
  const crosses = (group, j, i, limits, width, height, size) => {
    for (const mode of given.modes) {
      const x = ((mode[j] - limits[0][0]) / (limits[0][1] - limits[0][0])) * width;
      const y = height - ((mode[i] - limits[1][0]) / (limits[1][1] - limits[1][0])) * height;
      if (x > 0 && x < width && y > 0 && y < height) make("path", { d: `M${x - size} ${y}h${2 * size}M${x} ${y - size}v${2 * size}`, stroke: "var(--reference)", "stroke-width": 1.6 }, group);
    }
  };

  // The corner: a panel for every pair, marginals on the diagonal.
  const drawCorner = () => {
    const num = chosen.length;
    const width = Math.max(280, Math.min(corner.clientWidth, num === 1 ? 520 : 860));
    const left = 52, bottom = 40, gap = 8;
    const side = (width - left - 4 - gap * (num - 1)) / num;
    const height = 6 + num * side + gap * (num - 1) + bottom;
    const svg = make("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Corner plot of the chosen parameters" });
    svg.style.maxWidth = `${width}px`;
    svg.dataset.panels = (num * (num + 1)) / 2;
    chosen.forEach((i, row) =>
      chosen.slice(0, row + 1).forEach((j, column) => {
        const label = i === j ? `Marginal of ${names[i]}` : `${names[i]} against ${names[j]}`;
        const group = make("g", { transform: `translate(${left + column * (side + gap)} ${6 + row * (side + gap)})`, role: "button", tabindex: 0, "aria-label": `${label}; enlarge` }, svg);
        make("rect", { class: "frame", width: side, height: side, fill: "var(--page)", stroke: "var(--line)" }, group);
        const limits = [view(j), view(i)];
        if (i === j) marginal(group, i, limits[0], side, side, 44);
        else {
          make("image", { href: cloud(j, i, limits, 44), width: side, height: side, preserveAspectRatio: "none" }, group);
          crosses(group, j, i, limits, side, side, 4);
        }
        const many = side > 180 ? 6 : side > 110 ? 4 : 3;
        if (row === num - 1) {
          axis(group, j, limits[0], side, true, many);
          make("text", { x: side / 2, y: side + 33, "text-anchor": "middle", fill: "var(--ink)", "font-weight": 600 }, group, names[j]);
        }
        if (column === 0 && row > 0) {
          axis(group, i, limits[1], side, false, many);
          make("text", { transform: `translate(${-left + 10} ${side / 2}) rotate(-90)`, "text-anchor": "middle", fill: "var(--ink)", "font-weight": 600 }, group, names[i]);
        }
        group.addEventListener("pointermove", (event) => {
          const [u, v] = within(event, group, side);
          const x = limits[0][0] + u * (limits[0][1] - limits[0][0]);
          if (i === j) reading.textContent = `${names[i]} = ${say(x)}: ${below(i, x)} of the mass lies below`;
          else reading.textContent = `${names[j]} = ${say(x)}, ${names[i]} = ${say(limits[1][0] + (1 - v) * (limits[1][1] - limits[1][0]))}`;
        });
        group.addEventListener("pointerleave", () => (reading.textContent = "\u00a0"));
        const open = () => enlarge(j, i);
        group.addEventListener("click", open);
        group.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); }
        });
      })
    );
    corner.replaceChildren(svg);
  };
  const within = (event, group, side) => {
    const frame = group.querySelector("rect.frame").getBoundingClientRect();
    return [(event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height];
  };
  const below = (k, x) => {
    let sum = 0;
    const w = shares();
    for (let n = 0; n < w.length; n++) if (columns[k][n] <= x) sum += w[n];
    return `${(100 * sum).toFixed(1)} %`;
  };

  // One panel, large: draws as dots, zoom, and the draw that is nearest to the pointer.
  let shown = null;
  const enlarge = (j, i) => {
    shown = { j, i, limits: [view(j).slice(), view(i).slice()] };
    detail.hidden = false;
    drawLarge();
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    detail.scrollIntoView({ block: "nearest", behavior: isStill ? "auto" : "smooth" });
  };
  const drawLarge = () => {
    if (!shown) return;
    const { j, i, limits } = shown;
    const width = Math.max(280, Math.min(large.clientWidth || 700, 860));
    const left = 56, bottom = 42, w = width - left - 8, h = Math.min(440, 0.72 * w);
    const svg = make("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${h + bottom + 6}`, width, height: h + bottom + 6, role: "img", "aria-label": i === j ? `Marginal of ${names[i]}, large` : `${names[i]} against ${names[j]}, large` });
    svg.style.maxWidth = `${width}px`;
    svg.dataset.low = limits[0][0];
    svg.dataset.high = limits[0][1];
    const group = make("g", { transform: `translate(${left} 6)` }, svg);
    make("rect", { class: "frame", width: w, height: h, fill: "var(--page)", stroke: "var(--line)" }, group);
    const clip = make("clipPath", { id: "large-clip" }, group);
    make("rect", { width: w, height: h }, clip);
    const inside = make("g", { "clip-path": "url(#large-clip)" }, group);
    const px = (n) => ((columns[j][n] - limits[0][0]) / (limits[0][1] - limits[0][0])) * w;
    const py = (n) => h - ((columns[i][n] - limits[1][0]) / (limits[1][1] - limits[1][0])) * h;
    if (i === j) marginal(inside, i, limits[0], w, h, 90);
    else {
      const share = shares();
      const dots = [[], [], []]; // faint, middle, strong, by weight: three paths are quick to draw
      for (let n = 0; n < share.length; n++) {
        const x = px(n), y = py(n);
        if (!(x >= 0 && x <= w && y >= 0 && y <= h)) continue;
        const times = share[n] * share.length;
        dots[times < 0.3 ? 0 : times < 3 ? 1 : 2].push(`M${x.toFixed(1)} ${y.toFixed(1)}h0`);
      }
      [[0.25, 2.2], [0.55, 3.2], [0.9, 5]].forEach(([opacity, size], k) => {
        if (dots[k].length) make("path", { d: dots[k].join(""), stroke: "var(--draws)", "stroke-width": size, "stroke-linecap": "round", "stroke-opacity": opacity, fill: "none" }, inside);
      });
      crosses(inside, j, i, limits, w, h, 7);
    }
    for (const [k, isX, size] of [[j, true, w], ...(i === j ? [] : [[i, false, h]])]) {
      const range = limits[isX ? 0 : 1];
      for (const t of ticksOf(range, isX ? 6 : 5)) {
        const at = ((t - range[0]) / (range[1] - range[0])) * size;
        make("path", { d: isX ? `M${at} ${h}v4` : `M0 ${h - at}h-4`, stroke: "var(--muted)" }, group);
        make("text", isX ? { x: at, y: h + 16, "text-anchor": "middle", fill: "var(--ink)" } : { x: -7, y: h - at + 4, "text-anchor": "end", fill: "var(--ink)" }, group, say(t));
      }
      make("text", isX ? { x: w / 2, y: h + 35, "text-anchor": "middle", fill: "var(--ink)", "font-weight": 600 } : { transform: `translate(${-left + 11} ${h / 2}) rotate(-90)`, "text-anchor": "middle", fill: "var(--ink)", "font-weight": 600 }, group, names[k]);
    }
    const mark = make("circle", { r: 5, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5, visibility: "hidden" }, inside);
    const drag = make("rect", { fill: "var(--draws-soft)", stroke: "var(--draws)", visibility: "hidden" }, inside);
    const place = (event) => {
      const frame = group.querySelector("rect.frame").getBoundingClientRect();
      const clamp = (value) => Math.min(1, Math.max(0, value));
      return [clamp((event.clientX - frame.left) / frame.width) * w, clamp((event.clientY - frame.top) / frame.height) * h];
    };
    const toX = (x) => limits[0][0] + (x / w) * (limits[0][1] - limits[0][0]);
    const toY = (y) => limits[1][0] + (1 - y / h) * (limits[1][1] - limits[1][0]);
    let from = null;
    svg.addEventListener("pointerdown", (event) => { from = place(event); svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (from) {
        const isFlat = i === j;
        const attributes = { x: Math.min(x, from[0]), y: isFlat ? 0 : Math.min(y, from[1]), width: Math.abs(x - from[0]), height: isFlat ? h : Math.abs(y - from[1]), visibility: "visible" };
        Object.entries(attributes).forEach(([key, value]) => drag.setAttribute(key, value));
        return;
      }
      if (i === j) { reading.textContent = `${names[i]} = ${say(toX(x))}: ${below(i, toX(x))} of the mass lies below`; return; }
      let best = -1, least = 900;
      for (let n = 0; n < given.num; n++) {
        const gap = (px(n) - x) ** 2 + (py(n) - y) ** 2;
        if (gap < least) { least = gap; best = n; }
      }
      mark.setAttribute("visibility", best < 0 ? "hidden" : "visible");
      if (best < 0) { reading.textContent = `${names[j]} = ${say(toX(x))}, ${names[i]} = ${say(toY(y))}`; return; }
      mark.setAttribute("cx", px(best));
      mark.setAttribute("cy", py(best));
      const parts = names.slice(0, 8).map((name, k) => `${name} = ${say(columns[k][best])}`);
      if (logDensity) parts.push(`log density = ${say(logDensity[best])}`);
      if (given.isWeighted) parts.push(`weight = ${say(byWeight[best] * given.num)} of the mean`);
      reading.textContent = `draw ${best + 1}: ${parts.join(", ")}`;
    });
    svg.addEventListener("pointerup", (event) => {
      if (!from) return;
      const [x, y] = place(event);
      const [a, b] = from;
      from = null;
      drag.setAttribute("visibility", "hidden");
      if (Math.abs(x - a) < 6 || (i !== j && Math.abs(y - b) < 6)) return;
      shown.limits = [[toX(Math.min(x, a)), toX(Math.max(x, a))], i === j ? limits[1] : [toY(Math.max(y, b)), toY(Math.min(y, b))]];
      drawLarge();
    });
    svg.addEventListener("dblclick", () => zoom("all"));
    box.querySelector("[data-detail-title]").textContent = i === j ? `Marginal of ${names[i]}` : `${names[i]} against ${names[j]}`;
    large.replaceChildren(svg);
  };
  const zoom = (how) => {
    if (!shown) return;
    if (how === "all") shown.limits = [view(shown.j).slice(), view(shown.i).slice()];
    else shown.limits = shown.limits.map(([low, high]) => {
      const middle = (low + high) / 2, half = ((high - low) / 2) * (how === "in" ? 0.6 : 1 / 0.6);
      return [middle - half, middle + half];
    });
    drawLarge();
  };
  box.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => zoom(button.dataset.zoom)));
  box.querySelector("[data-close]").addEventListener("click", () => { detail.hidden = true; shown = null; });
  box.querySelectorAll("[data-svg-of]").forEach((button) =>
    button.addEventListener("click", () => {
      const svg = (button.dataset.svgOf === "detail" ? large : corner).querySelector("svg");
      if (svg) save(svg, button.dataset.svgOf);
    })
  );

  // Controls.
  const chips = box.querySelector("[data-chips]");
  const button = (text, isPressed, press) => {
    const node = document.createElement("button");
    node.type = "button";
    node.textContent = text;
    node.setAttribute("aria-pressed", isPressed);
    node.addEventListener("click", press);
    return node;
  };
  const drawControls = () => {
    chips.replaceChildren(...names.map((name, k) => {
      const isOn = chosen.includes(k);
      const node = button(name, isOn, () => {
        chosen = isOn ? chosen.filter((other) => other !== k) : [...chosen, k].sort((a, b) => a - b);
        drawControls();
        chips.children[k].focus();
        drawCorner();
      });
      node.disabled = isOn ? chosen.length === 1 : chosen.length >= MOST;
      return node;
    }));
    const group = box.querySelector("[data-weights]");
    if (given.isWeighted) group.replaceChildren(...[["By weight", true], ["As drawn", false]].map(([text, value]) =>
      button(text, isWeighted === value, () => { isWeighted = value; drawControls(); redraw(); })
    ));
  };
  redraws.push(drawCorner, drawLarge);
  drawControls();
  drawCorner();
  let last = corner.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(corner.clientWidth - last) < 2) return;
    last = corner.clientWidth;
    redraw();
  }).observe(corner);
})();
