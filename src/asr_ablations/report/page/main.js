"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const armNumber = (name) => data.arms.findIndex((arm) => arm.name === name);
const choice = { metric: null, axis: "epoch", seeds: "band", smoothing: 0, arms: new Set(data.arms.map((arm) => arm.name)) };

function swatch(arm) {
  const number = armNumber(arm);
  return number < 0 ? null : element("span", { class: "swatch", style: `background:var(--arm${number % 8})`, "aria-hidden": "true" });
}
const armCell = (row) => element("span", {}, swatch(row.arm), row.arm);
const options = (place, pairs) => at(place).replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));

function head() {
  document.title = `${data.title}: comparison`;
  at("title").replaceChildren(...data.title.split(/(?<=[+_-])/).flatMap((part) => [part, element("wbr", {})]));
  at("question").textContent = data.question ?? "";
  const several = data.arms.length > 1;
  const parts = several ? [`factor ${data.factor.join(", ")}`, `${data.arms.length} arms`, data.source] : ["one arm", data.source];
  at("kicker").textContent = parts.filter(Boolean).join(" · ");
  const items = (lines) => lines.map((text) => element("li", {}, text));
  at("findings").replaceChildren(...items(data.answer.findings));
  at("evidence").textContent = data.answer.evidence.join(" ");
  at("verdicts").replaceChildren(...items(data.verdicts));
  at("s-verdicts").hidden = data.verdicts.every((text) => data.answer.findings.includes(text));
  const list = (title, lines, kind) => lines.length
    ? [element("div", { class: kind }, title, element("ul", {}, ...items(lines)))] : [];
  at("notes").replaceChildren(
    ...list("Warnings", data.warnings, "warning"),
    ...list("Not finished", data.unfinished.map(([run, reason]) => `${run}: ${reason}`), "warning"),
  );
  const empty = !at("findings").children.length && !at("notes").children.length; // of a single run
  at("verdict").hidden = empty;
  if (empty) Object.assign(document.querySelector(".skip"), { href: "#results", textContent: "Skip to the results" });
}

/* A row per arm, with its interval on an axis that all rows share; the margin is shaded. */
function answer() {
  const { rows, effects, set } = data.answer;
  at("set").textContent = set;
  const every = [...rows, ...effects];
  const margin = data.answer.margin ?? 0;
  const ends = [-margin, margin, ...every.flatMap((row) => [row.low ?? 0, row.high ?? 0])];
  const axis = { from: Math.min(...ends), to: Math.max(...ends, 1e-9), margin, width: 240 };
  const several = (values) => new Set(values).size > 1;
  const difference = [
    { key: "difference", title: "difference", cell: (row) => row.difference, value: (row) => row.value, number: true },
    { key: "low", title: effects.length || data.baseline.length > 30 ? "on one axis" : `to ${data.baseline}`, cell: (row) => row.low === null ? "" : interval(row, axis) },
    { key: "interval", title: "interval", cell: (row) => row.interval },
    ...several(every.map((row) => row.level).filter(Boolean)) ? [{ key: "level", cell: (row) => row.level ? `${row.level} %` : "" }] : [],
    { key: "outcome", title: "verdict", cell: (row) => element("span", { class: OUTCOMES[row.outcome] ?? "" }, row.outcome) },
  ];
  const asked = every.some((row) => row.outcome);
  const seeds = several(rows.map((row) => row.runs)) ? [{ key: "runs", title: "seeds" }] : [];
  const rate = { key: "rate", title: data.metrics[data.metric].heading, cell: (row) => row.rate, number: true };
  table("answer", rows, [{ key: "name", title: "arm", cell: (row) => element("span", {}, swatch(row.name), row.name) }, ...seeds, rate, ...asked && !effects.length ? difference : []], "Answer");
  at("effects").hidden = !effects.length;
  table("effects", effects, [{ key: "name", title: "effect" }, ...difference], "Effects");
}

const OUTCOMES = { better: "good", worse: "bad" };

/* A column of the results: a mean and its standard deviation over seeds share a column. */
function resultColumn(key, rows) {
  if (key === "arm") return { key, cell: armCell };
  const deviation = `${key}_sd`;
  if (!rows.some((row) => typeof row[deviation] === "number")) return { key, title: key === "n" ? "seeds" : undefined };
  const cell = (row) => shown(key, row[key]) + (typeof row[deviation] === "number" ? ` ± ${shown(key, row[deviation])}` : "");
  return { key, cell, number: true };
}

function resultColumns(rows) {
  const rates = ["arm", "set", "wer", "cer"]; // first, since a phone shows four columns
  const all = keys(rows);
  return [...rates.filter((key) => all.includes(key)), ...all.filter((key) => !rates.includes(key))]
    .filter((key) => !(key.endsWith("_sd") && all.includes(key.slice(0, -3)))).map((key) => resultColumn(key, rows));
}

function results() {
  table("results", data.rows, resultColumns(data.rows), "Results");
  at("s-validated").hidden = !data.validated.length;
  table("validated", data.validated, resultColumns(data.validated), "Validation sets");
  at("s-equal").hidden = !data.equal.length;
  table("equal", data.equal, keys(data.equal).map((key) => key === "arm" ? { key, cell: armCell } : key === "axis" ? { key, title: EQUAL[key], cell: (row) => SPENT[row.axis] } : { key, title: EQUAL[key] }), "At equal cost");
  at("s-scaling").hidden = !data.scaling.length;
  table("scaling", data.scaling, keys(data.scaling).map((key) => ({ key, title: SCALING[key] })), "Scaling");
  at("s-epochs").hidden = !data.epochs.length;
  table("epochs", data.epochs, keys(data.epochs).map((key) => key === "arm" ? { key, cell: armCell } : { key, title: EPOCHS[key] }), "Seconds per epoch");
  const reached = keys(data.reached).map((key) => key === "arm" ? { key, cell: armCell } : key === "metric" ? { key, cell: (row) => data.metrics[row.metric].label } : { key, title: key === "relative" ? "time / baseline" : undefined });
  at("s-reached").hidden = !data.reached.length;
  table("reached", data.reached, reached, "Time to accuracy");
  const config = keys(data.config).map((key) => ({ key, title: key.replace(/^arm /, "") }));
  at("s-config").hidden = data.arms.length < 2 || !data.environments.length;
  if (data.config.length) table("config", data.config, config, "Differing keys of the configs");
  else at("config").replaceChildren(element("p", { class: "hint nothing" }, "Nothing."));
}

/* The interval of a row on an axis that has its zero line, and the margin shaded. */
function interval(row, { from, to, margin = 0, width = 140 }) {
  if (row.low === null || row.high === null) return "–";
  const x = (value) => 6 + ((width - 12) * (value - from)) / (to - from);
  const draw = (tag, attributes) => {
    const shape = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
    return shape;
  };
  const image = draw("svg", { width, height: 18, class: "interval", role: "img", "aria-label": `${shown("low", row.low)} to ${shown("high", row.high)}` });
  image.append(
    draw("rect", { x: x(-margin), width: x(margin) - x(-margin), y: 0, height: 18, fill: "var(--line)" }),
    draw("line", { x1: x(0), x2: x(0), y1: 0, y2: 18, stroke: "var(--soft)", "stroke-dasharray": "2 2" }),
    draw("line", { x1: x(row.low), x2: x(row.high), y1: 9, y2: 9, stroke: "currentColor", "stroke-width": 2 }),
    draw("circle", { cx: x(row.value ?? row.difference), cy: 9, r: 4, fill: "currentColor" }),
  );
  return image;
}

function differences() {
  at("s-differences").hidden = !data.differences.length;
  at("baseline").textContent = data.baseline;
  at("definitions").replaceChildren(...data.definitions.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]));
  const most = Math.max(1e-9, ...data.differences.flatMap((row) => [Math.abs(row.low ?? 0), Math.abs(row.high ?? 0), Math.abs(row.difference)]));
  const clear = (row) => OUTCOMES[row.outcome] ?? "";
  const signed = (row) => element("span", { class: clear(row) }, (row.difference > 0 ? "+" : "") + shown("difference", row.difference).replace("-", "−"));
  const role = (row) => row.primary ? "decides" : "describes";
  table("differences", data.differences, [
    { key: "arm", cell: armCell }, { key: "difference", title: "difference", cell: signed },
    { key: "low", title: "interval", cell: (row) => interval(row, { from: -most, to: most }) }, { key: "outcome", title: "verdict" },
    { key: "set" }, { key: "primary", title: "role", cell: role },
    { key: "p" }, { key: "p_adjusted", title: "Holm" }, { key: "error_over_seeds", title: "SE seeds" }, { key: "error_over_speakers", title: "SE speakers" },
    { key: "detectable", title: "detectable" }, { key: "p_pairs_holm", title: "matched pairs p" },
  ], "Differences");
}

function search() {
  at("s-search").hidden = !data.search.length;
}

function looks() {
  at("s-looks").hidden = !data.looks.length;
  if (!data.looks.length) return;
  const signed = (row) => (row.difference > 0 ? "+" : "") + shown("difference", row.difference).replace("-", "−");
  const ends = (low, high) => (row) => row[low] === null ? "–" : `${shown("low", row[low])} to ${shown("high", row[high])}`.replaceAll("-", "−");
  table("looks", data.looks, [
    { key: "arm", cell: lookCell }, { key: "look" }, { key: "seeds" }, { key: "difference", title: "difference", cell: signed, number: true },
    { key: "low", title: "interval", cell: ends("low", "high") }, { key: "equal_low", title: "for equality", cell: ends("equal_low", "equal_high") },
    { key: "state" }, { key: "chance", cell: (row) => row.chance === null ? "–" : `${digits(100 * row.chance, 0)} %` },
  ], "Looks");
  at("cost").replaceChildren(...data.plan.cost.map((line) => element("li", {}, line)));
}

/* A question with the colour that its points have in the chart. */
function lookCell(row) {
  const place = [...new Set(data.looks.map((each) => each.arm))].indexOf(row.arm);
  const number = armNumber(row.arm) < 0 ? place : armNumber(row.arm);
  return element("span", {}, element("span", { class: "swatch", style: `background:var(--arm${number % 8})`, "aria-hidden": "true" }), row.arm);
}

function redrawLooks() {
  const metric = data.metrics[data.metric];
  const title = `${metric.label} difference to ${plain(data.baseline)}, ${metric.is_rate ? "points" : metric.unit}`;
  draw("looks-chart", lookTraces(data.looks, metric.scale), "seeds of each arm at the look", title, { band: metric.scale * data.plan.margin, reach: metric.scale * data.plan.reach, ticks: data.plan.looks });
}

function redraw() {
  if (window.Plotly && data.looks.length) redrawLooks();
  if (window.Plotly && data.search.length) drawSearch("search-chart", data.search, `best validation ${data.metrics.wer.heading}`);
  if (!window.Plotly || !choice.metric) return;
  const logarithmic = at("log").checked;
  draw("curves", traces(data.arms, choice), AXIS_TITLES[choice.axis], plain(metricTitle(choice.metric)), { log: logarithmic });
  const column = at("resource").value;
  const lines = data.utilisation.flatMap((arm, number) => choice.arms.has(arm.arm) ? Object.entries(arm.series).flatMap(([key, points]) => {
    const gpu = column === "gpu_percent" && EACH_GPU.exec(key); // thin lines below their mean
    if (key !== column && !gpu) return [];
    const line = gpu ? { color: colour(number), dash: "dot", width: 0.8 } : { color: colour(number), dash: DASHES[number % 8], width: 1.8 };
    return [{ ...points, name: plain(gpu ? `${arm.arm}, GPU ${gpu[1]}` : arm.arm), mode: "lines", line }];
  }) : []);
  if (column) draw("utilisation", lines, AXIS_TITLES.time, RESOURCES[column] ?? plain(column));
}

const EACH_GPU = /^gpu_percent_(\d+)$/;
const EQUAL = { axis: "at equal", mean: data.metrics[data.metric].heading, deviation: `sd, ${data.metrics[data.metric].unit}`, n: "seeds" };
const SPENT = { steps: "steps", audio_hours: "hours of audio", seconds: "seconds" };
const SCALING = { series: "runs", processes: "processes", n: "n", batch: "batch of each", epoch_minutes: "minutes per epoch", audio_seconds_per_second: "s of audio per second", speed_up: "speed-up (95 %)", price: "price of an epoch" };
const EPOCHS = { n: "seeds", first: "first, s", seconds: "s per epoch", over_epochs: "sd over epochs", over_seeds: "sd over seeds", ratio: "time / baseline (95 %)" };
const RESOURCES = {
  cpu_percent: "CPU, % of all cores", host_memory_gib: "host memory, GiB", disk_read_mib: "read from disk, MiB per sample", gpu_percent: "GPU, %, each and the mean",
  gpu_memory_gib: "GPU memory, GiB", gpu_power_watts: "GPU power, W", audio_seconds_per_second: "seconds of audio trained per second",
};

function controls() {
  const metrics = [...new Set(data.arms.flatMap((arm) => arm.runs.flatMap((run) => Object.keys(run.series))))];
  const rank = (metric) => [data.metric, "wer", "cer", "loss"].findIndex((kind) => metric.startsWith("validation/") && metric.endsWith(`/${kind}`));
  metrics.sort((a, b) => (rank(a) + 5) % 5 - (rank(b) + 5) % 5 || a.localeCompare(b));
  choice.metric = metrics[0];
  at("s-curves").hidden = !metrics.length;
  options("metric", metrics.map((metric) => [metric, metricTitle(metric)]));
  const known = new Set(data.arms.flatMap((arm) => arm.runs.flatMap((run) => Object.values(run.series).flatMap(Object.keys))));
  options("axis", Object.entries(AXIS_TITLES).filter(([axis]) => known.has(axis)));
  const columns = [...new Set(data.utilisation.flatMap((arm) => Object.keys(arm.series)))].filter((key) => !EACH_GPU.test(key));
  options("resource", columns.map((column) => [column, RESOURCES[column] ?? column]));
  at("s-utilisation").hidden = !columns.length;
  for (const key of ["metric", "axis", "seeds"]) at(key).addEventListener("change", () => { choice[key] = at(key).value; redraw(); });
  for (const key of ["log", "resource"]) at(key).addEventListener("change", redraw);
  at("smoothing").addEventListener("input", () => { choice.smoothing = Number(at("smoothing").value); at("smoothed").textContent = choice.smoothing; redraw(); });
  at("arms").replaceChildren(...data.arms.map((arm, number) => {
    const box = element("input", { type: "checkbox", checked: "" });
    box.addEventListener("change", () => { choice.arms[box.checked ? "add" : "delete"](arm.name); redraw(); });
    const sample = element("span", { "aria-hidden": "true" });
    sample.style.cssText = `width:2.2rem;height:2px;background:repeating-linear-gradient(90deg,var(--arm${number % 8}) 0 ${[99, 7, 9, 3, 12, 12, 5, 2][number % 8]}px,transparent 0 ${[99, 11, 12, 6, 16, 15, 7, 7][number % 8]}px)`;
    const seeds = arm.runs.length > 1 ? ` (${arm.runs.length} seeds)` : "";
    return element("label", {}, box, sample, arm.name + seeds);
  }));
}

function pair([reference, hypothesis]) {
  const kind = reference === null ? "ins" : hypothesis === null ? "del" : reference === hypothesis ? "" : "sub";
  const title = { ins: `inserted: ${hypothesis}`, del: `deleted: ${reference}`, sub: `${reference}, recognised as ${hypothesis}` }[kind];
  const attributes = title ? { class: "pair", title } : { class: "pair" };
  return element("span", attributes, element("span", { class: kind === "del" ? "del" : "" }, reference ?? "\u00a0"), element("span", { class: kind === "del" ? "" : kind }, hypothesis ?? "\u00a0"));
}

function utterances() {
  at("s-worst").hidden = !data.worst.length;
  at("worst").replaceChildren(...data.worst.map((utterance) => {
    const title = element("h3", {}, utterance.id, " ", element("span", {}, `${utterance.set} · speaker ${utterance.speaker ?? "unknown"} · WER ${digits(100 * utterance.rate, 0)} %`));
    const recognised = utterance.recognised.map((arm) => element("div", { class: "recognised" },
      element("p", {}, swatch(arm.arm), `${arm.arm}, seed ${arm.seed}: WER ${digits(100 * arm.rate, 0)} %`), element("div", { class: "pairs" }, ...arm.pairs.map(pair))));
    return spoken(utterance, title, ...recognised);
  }));
}

function spoken(utterance, title, ...parts) {
  const sound = utterance.audio ? element("audio", { controls: "", preload: "none", src: utterance.audio, "aria-label": `Recording of ${utterance.id}` }) : element("span", {}, `no recording${utterance.silent ? `: ${utterance.silent}` : ""}`);
  return element("li", {}, element("div", { class: "spoken" }, title, sound), ...parts);
}

function inspected() {
  at("s-inspected").hidden = !data.inspected.length;
  at("inspected").replaceChildren(...data.inspected.map((utterance) => {
    const title = element("h3", {}, `The ${utterance.kind}: ${utterance.id} `, element("span", {}, `${utterance.set} · WER ${digits(100 * utterance.rate, 0)} %`));
    const text = utterance.pairs.map(([reference, hypothesis]) => `${reference ?? "nothing"} as ${hypothesis ?? "nothing"}`).join(", ");
    const picture = element("img", { src: utterance.picture, alt: `Features and posteriors of ${utterance.id}, recognised: ${text}` });
    return spoken(utterance, title, element("div", { class: "pairs" }, ...utterance.pairs.map(pair)), element("div", { class: "picture", tabindex: "0", role: "region", "aria-label": `Picture of ${utterance.id}` }, picture));
  }));
  at("s-confusions").hidden = !data.words.length && !data.letters.length;
  const columns = [{ key: "reference" }, { key: "hypothesis", title: "recognised as" }, { key: "times" }];
  table("words", data.words, columns, "Confused words");
  table("letters", data.letters, columns, "Confused letters");
}

function networks() {
  at("s-networks").hidden = !data.networks.length;
  at("networks").replaceChildren(...data.networks.map((network) => element("details", {},
    element("summary", {}, network.arms.join("; ")), element("pre", { class: "scroll", tabindex: "0" }, network.drawing))));
}

function environments() {
  at("s-environment").hidden = !data.environments.length; // of systems, of which nothing but hypotheses is known
  at("environment").replaceChildren(...data.environments.map((environment, number) => {
    const values = Object.entries(environment.values).flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, value)]);
    const summary = element("summary", {}, `${environment.runs.length} ${environment.runs.length === 1 ? "run" : "runs"}: ${environment.values["hardware.processor"] ?? "unknown machine"}`);
    return element("details", number ? {} : { open: "" }, summary, element("dl", {}, ...values, element("dt", {}, "runs"), element("dd", {}, environment.runs.join(", "))));
  }));
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  at("theme").textContent = name === "dark" ? "Light" : "Dark";
  at("theme").setAttribute("aria-label", `Switch to the ${name === "dark" ? "light" : "dark"} theme`);
  redraw();
}

const darkness = window.matchMedia("(prefers-color-scheme: dark)");
controls();
theme(darkness.matches ? "dark" : "light");
darkness.addEventListener("change", (event) => theme(event.matches ? "dark" : "light"));
at("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
for (const part of [head, answer, results, differences, search, looks, inspected, utterances, networks, environments]) part();
document.addEventListener("DOMContentLoaded", () => loadPlotly().then(redraw).catch((error) => {
  for (const id of ["curves", "utilisation", "looks-chart", "search-chart"]) at(id).replaceChildren(element("p", {}, `Curves need a newer browser (${error.message}); the figures beside this file show them too.`));
}).finally(() => { document.documentElement.dataset.ready = "yes"; }));
