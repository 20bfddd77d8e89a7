"use strict";
/* Charts: arms differ by colour, dash and symbol. */

const DASHES = ["solid", "dash", "dashdot", "dot", "longdash", "longdashdot", "5px,2px", "2px,5px"];
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star"];
const STROKES = ["", "6 4", "8 3 2 3", "2 3", "12 4", "12 3 2 3", "5 2", "2 5"];
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (arm) => style(`--arm${arm % 8}`);
/* Plotly reads a few tags in names and axis titles. */
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const AXIS_TITLES = { epoch: "epochs", step: "steps", audio: "hours of audio trained", time: "time, seconds" };

function metricTitle(metric) {
  const parts = metric.split("/");
  if (parts[0] === "validation" && parts.length > 2) {
    const kind = parts.slice(2).join(" ");
    const known = data.metrics[kind];
    return `${known ? known.label : kind} of ${parts[1]}${known ? `, ${known.unit}` : ""}`;
  }
  return parts.slice(1).join(" ").replace(/_/g, " ") + (parts[0] === "train" ? " in training" : "");
}
const scaleOf = (metric) => data.metrics[metric.split("/").pop()]?.scale ?? 1;

/* Exponential moving average, corrected for the bias of its start. */
function smoothed(values, weight) {
  if (!weight) return values;
  let mean = 0, sum = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = weight * mean + (1 - weight) * value;
    sum = weight * sum + (1 - weight);
    return mean / sum;
  });
}

/* Points of the arm's runs under the chosen smoothing. */
function drawn(arm, choice) {
  return arm.runs.map((run) => ({ seed: run.seed, series: run.series[choice.metric] }))
    .filter(({ series }) => series && series[choice.axis])
    .map(({ seed, series }) => ({
      seed, x: series[choice.axis],
      y: smoothed(series.y.map((v) => (v === null ? null : v * scaleOf(choice.metric))), choice.smoothing),
    }));
}

/* Mean, smallest and largest of several curves, point by point. */
function spanned(curves) {
  const length = Math.max(...curves.map((curve) => curve.y.length));
  const points = [];
  for (let i = 0; i < length; i += 1) {
    const known = curves.filter((curve) => curve.y[i] !== null && curve.y[i] !== undefined);
    const ys = known.map((curve) => curve.y[i]);
    const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
    if (ys.length) points.push({ x: mean(known.map((c) => c.x[i])), mean: mean(ys), low: Math.min(...ys), high: Math.max(...ys) });
  }
  return points;
}

function traces(arms, choice) {
  return arms.flatMap((arm, number) => {
    const curves = choice.arms.has(arm.name) ? drawn(arm, choice) : [];
    if (!curves.length) return [];
    const line = { color: colour(number), dash: DASHES[number % 8], width: 2 };
    const marker = { symbol: SYMBOLS[number % 8], size: 6 };
    const name = plain(arm.name);
    if (choice.seeds === "each")
      return curves.map((c) => ({ x: c.x, y: c.y, name: `${name}, seed ${c.seed}`, mode: c.y.length > 60 ? "lines" : "lines+markers", line: { ...line, width: 1.4 }, marker, arm: arm.name }));
    const points = spanned(curves);
    const x = points.map((p) => p.x);
    const main = { x, y: points.map((p) => p.mean), name, mode: x.length > 60 ? "lines" : "lines+markers", line, marker, arm: arm.name };
    if (curves.length < 2) return [main];
    const hidden = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, x };
    return [
      { ...hidden, y: points.map((p) => p.low) },
      { ...hidden, y: points.map((p) => p.high), fill: "tonexty", fillcolor: colour(number) + "2e" },
      main,
    ];
  });
}

/* The looks of a sweep with a plan: a point per question and look, questions beside each other, and the margin as a band. */
function lookTraces(rows, scale) {
  const names = [...new Set(rows.map((row) => row.arm))];
  const spread = Math.min(1.4, 0.06 * Math.max(...rows.map((row) => row.seeds))); // less than from one look to the next
  const step = names.length < 2 ? 0 : spread / (names.length - 1);
  return names.flatMap((name, place) => {
    const own = rows.filter((row) => row.arm === name);
    const arm = armNumber(name) < 0 ? place : armNumber(name); // an effect of several arms has no colour of its own
    const symbols = own.map((row) => SYMBOLS[arm % 8] + (row.state === "open" ? "-open" : ""));
    const x = own.map((row) => row.seeds + step * (place - (names.length - 1) / 2));
    const y = own.map((row) => scale * row.difference);
    const bars = (low, high, more) => ({
      type: "data", symmetric: false, ...more,
      array: own.map((row) => (row[high] === null ? 0 : scale * (row[high] - row.difference))),
      arrayminus: own.map((row) => (row[low] === null ? 0 : scale * (row.difference - row[low]))),
    });
    const trace = { x, y, name: plain(name), mode: "markers", text: own.map((row) => `${row.state} at ${row.seeds} seeds`), arm: name };
    return [
      { ...trace, hoverinfo: "skip", marker: { size: 1, color: colour(arm) }, error_y: bars("equal_low", "equal_high", { color: colour(arm) + "55", thickness: 6, width: 0 }) },
      { ...trace, marker: { symbol: symbols, size: 9, color: colour(arm) }, error_y: bars("low", "high", { color: colour(arm), thickness: 1.5, width: 5 }) },
    ];
  });
}

const isNarrow = () => window.innerWidth < 640;
const axisLook = () => ({ gridcolor: style("--line"), zerolinecolor: style("--line"), linecolor: style("--line"), automargin: true });
const chartLook = () => ({
  paper_bgcolor: style("--card"), plot_bgcolor: style("--card"), showlegend: false, margin: { l: 56, r: 16, t: 28, b: 58 },
  font: { family: "system-ui, sans-serif", size: 12, color: style("--ink") }, hoverlabel: { bgcolor: style("--card"), font: { color: style("--ink") } },
});
const chartTools = () => ({ responsive: true, displaylogo: false, displayModeBar: isNarrow() ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], showLink: false });

/* What a search tried: a panel per hyperparameter, a point per run, a star for the best of them. */
function drawSearch(place, tried, title) {
  const columns = isNarrow() ? 1 : Math.min(4, tried.length), rows = Math.ceil(tried.length / columns);
  at(place).style.height = `${4 + 17 * rows}rem`;
  const layout = { ...chartLook(), hovermode: "closest", grid: { rows, columns, pattern: "independent" } };
  const points = tried.flatMap((each, number) => {
    const axis = number ? String(number + 1) : "";
    const scale = each.logarithmic ? "log" : typeof each.values[0] === "number" ? "linear" : "category";
    layout[`xaxis${axis}`] = { ...axisLook(), zeroline: false, title: { text: plain(each.key) }, type: scale, nticks: 6 };
    layout[`yaxis${axis}`] = { ...axisLook(), zeroline: false, title: { text: number % columns ? "" : title } };
    const rates = each.rates.map((rate) => data.metrics.wer.scale * rate);
    const own = { xaxis: `x${axis}`, yaxis: `y${axis}`, mode: "markers", name: plain(each.key) };
    return [
      { ...own, x: each.values, y: rates, marker: { symbol: "circle-open", size: 8, color: colour(0) } },
      { ...own, x: [each.values[each.best]], y: [rates[each.best]], name: "best", marker: { symbol: "star", size: 14, color: colour(1) } },
    ];
  });
  return Plotly.react(place, points, layout, chartTools());
}

function draw(place, data, xTitle, yTitle, options = {}) {
  const grid = axisLook();
  const layout = {
    ...chartLook(), hovermode: isNarrow() ? "closest" : "x unified",
    xaxis: { ...grid, title: { text: xTitle }, zeroline: false },
    yaxis: { ...grid, title: { text: yTitle }, type: options.log ? "log" : "linear", rangemode: options.log ? "normal" : "tozero", zeroline: false },
  };
  if (options.ticks) Object.assign(layout.xaxis, { tickvals: options.ticks });
  if (options.band) {
    const band = { type: "rect", xref: "paper", x0: 0, x1: 1, y0: -options.band, y1: options.band, fillcolor: style("--soft"), opacity: 0.18, line: { width: 0 }, layer: "below" };
    Object.assign(layout, { shapes: [band], hovermode: "closest" });
    Object.assign(layout.yaxis, { zeroline: true, zerolinecolor: style("--soft"), range: [-options.reach, options.reach] });
  }
  return Plotly.react(place, data, layout, chartTools());
}

/* Load plotly.js, which the page itself holds compressed. */
async function loadPlotly() {
  const packed = atob(document.getElementById("plotly").textContent.trim());
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i); // Uint8Array.from takes ten times as long
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}
