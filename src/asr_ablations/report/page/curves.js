"use strict";
/* Draw curves. Arms differ in colour, dash and symbol. */

const DASHES = ["solid", "dash", "dashdot", "dot", "longdash", "longdashdot", "5px,2px", "2px,5px"];
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star"];
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/* Escape text for Plotly, which interprets some tags in names and axis titles. */
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

/* Return the mean, the smallest and the largest value of several curves, point by point. */
function spanned(curves) {
  const longest = curves.reduce((a, b) => (b.y.length > a.y.length ? b : a));
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  return longest.y.map((_, i) => {
    const points = curves.filter((curve) => (curve.y[i] ?? null) !== null);
    const values = points.map((curve) => curve.y[i]);
    return { x: mean(points.map((curve) => curve.x[i])), mean: mean(values), low: Math.min(...values), high: Math.max(...values) };
  }).filter((point) => !Number.isNaN(point.mean));
}

function traces(arm, number, choice) {
  const curves = arm.runs.map((run) => ({ seed: run.seed, ...run.series[choice.metric] })).filter((curve) => curve[choice.axis])
    .map((curve) => ({ seed: curve.seed, x: curve[choice.axis], y: curve.y }));
  if (!curves.length || !choice.arms.has(arm.name)) return [];
  const colour = style(`--arm${number % 8}`);
  const look = (x) => ({ x, name: plain(arm.name), line: { color: colour, dash: DASHES[number % 8], width: 2 }, marker: { symbol: SYMBOLS[number % 8], size: 6 }, mode: x.length > 60 ? "lines" : "lines+markers" });
  if (choice.seeds === "each") return curves.map((curve) => ({ ...look(curve.x), y: curve.y, name: `${plain(arm.name)}, seed ${curve.seed}` }));
  const points = spanned(curves);
  const main = { ...look(points.map((point) => point.x)), y: points.map((point) => point.mean) };
  const edge = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", x: main.x };
  const high = { ...edge, y: points.map((point) => point.high), fill: "tonexty", fillcolor: `${colour}2e` };
  return curves.length < 2 ? [main] : [{ ...edge, y: points.map((point) => point.low) }, high, main];
}

function draw(choice) {
  const grid = { gridcolor: style("--line"), zerolinecolor: style("--line"), linecolor: style("--line"), automargin: true, zeroline: false };
  const narrow = window.innerWidth < 640, card = style("--card");
  const layout = {
    paper_bgcolor: card, plot_bgcolor: card, showlegend: false, margin: { l: 56, r: 16, t: 28, b: 58 }, hovermode: narrow ? "closest" : "x unified",
    font: { family: "system-ui, sans-serif", size: 12, color: style("--ink") }, hoverlabel: { bgcolor: card, font: { color: style("--ink") } },
    xaxis: { ...grid, title: { text: data.axes[choice.axis] } },
    yaxis: { ...grid, title: { text: plain(data.metrics[choice.metric]) }, type: choice.log ? "log" : "linear", rangemode: choice.log ? "normal" : "tozero" },
  };
  const tools = { responsive: true, displaylogo: false, displayModeBar: narrow ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  return Plotly.react("curves", data.arms.flatMap((arm, number) => traces(arm, number, choice)), layout, tools);
}

/* Load plotly.js, which the page contains in compressed form. */
async function loadPlotly() {
  const packed = atob(document.getElementById("plotly").textContent.trim());
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i); // a loop, because Uint8Array.from takes ten times as long
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}
