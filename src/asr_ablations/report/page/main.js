"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const choice = { metric: null, axis: "epoch", seeds: "band", log: false, arms: new Set(data.arms.map((arm) => arm.name)) };
const items = (lines) => lines.map((text) => element("li", {}, text));
const percent = (rate) => `WER ${(100 * rate).toFixed(0)} %`;

function swatch(arm) {
  const number = data.arms.findIndex((each) => each.name === arm);
  return number < 0 ? null : element("span", { class: "swatch", style: `background:var(--arm${number % 8})`, "aria-hidden": "true" });
}

function head() {
  document.title = `${data.title}: comparison`;
  at("title").replaceChildren(...data.title.split(/(?<=[+_-])/).flatMap((part) => [part, element("wbr")]));
  at("question").textContent = data.question ?? "";
  const parts = data.arms.length > 1 ? [`factor ${data.factor.join(", ")}`, `${data.arms.length} arms`] : ["one arm"];
  at("kicker").textContent = [...parts, data.source].filter(Boolean).join(" · ");
}

function answer() {
  at("set").textContent = data.answer.set;
  const tables = data.answer.tables.map((each) => table(each, "Answer"));
  at("answer").replaceChildren(...(data.answer.figure ? [picture(data.answer.figure, "The differences with their intervals")] : []), ...tables);
  at("findings").replaceChildren(...items(data.answer.findings));
  at("evidence").textContent = data.answer.evidence.join(" ");
  at("notes").replaceChildren(...data.notes.map(({ heading, lines }) => element("div", { class: "warning" }, heading, element("ul", {}, ...items(lines)))));
}

function sections() {
  at("sections").replaceChildren(...data.sections.map((section) => element("section", { "aria-label": section.heading },
    element("h2", {}, section.heading),
    section.figure ? picture(section.figure, section.heading) : null,
    section.rows.length ? table(section, section.heading) : null,
    section.lines.length ? element("ul", { class: section.rows.length ? "hint" : "" }, ...items(section.lines)) : null)));
}

function redraw() {
  if (window.Plotly && choice.metric) draw(choice);
}

function controls() {
  const series = data.arms.flatMap((arm) => arm.runs.flatMap((run) => Object.entries(run.series)));
  const present = (names, key) => Object.entries(names).filter(([name]) => series.some((each) => key(each, name)));
  const options = (place, pairs) => at(place).replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
  const offerAxes = () => {
    const axes = present(data.axes, ([metric, points], axis) => metric === choice.metric && points[axis]);
    options("axis", axes);
    if (axes.length && !axes.some(([axis]) => axis === choice.axis)) choice.axis = axes[0][0];
    at("axis").value = choice.axis;
  };
  options("metric", present(data.metrics, ([metric], name) => metric === name));
  choice.metric = at("metric").value;
  at("s-curves").hidden = !choice.metric;
  offerAxes();
  for (const key of ["metric", "axis", "seeds"]) at(key).addEventListener("change", () => { choice[key] = at(key).value; offerAxes(); redraw(); });
  at("log").addEventListener("change", () => { choice.log = at("log").checked; redraw(); });
  at("arms").replaceChildren(...data.arms.map((arm) => {
    const box = element("input", { type: "checkbox", checked: "" });
    box.addEventListener("change", () => { choice.arms[box.checked ? "add" : "delete"](arm.name); redraw(); });
    return element("label", {}, box, swatch(arm.name), arm.name + (arm.runs.length > 1 ? ` (${arm.runs.length} seeds)` : ""));
  }));
}

function pair([reference, hypothesis]) {
  const kind = reference === null ? "ins" : hypothesis === null ? "del" : reference === hypothesis ? "" : "sub";
  const title = { ins: `inserted: ${hypothesis}`, del: `deleted: ${reference}`, sub: `${reference}, recognised as ${hypothesis}` }[kind];
  return element("span", title ? { class: "pair", title } : { class: "pair" },
    element("span", { class: kind === "del" ? "del" : "" }, reference ?? "\u00a0"), element("span", { class: kind === "del" ? "" : kind }, hypothesis ?? "\u00a0"));
}

function spoken(utterance, title, ...parts) {
  const sound = utterance.audio ? element("audio", { controls: "", preload: "none", src: utterance.audio, "aria-label": `Recording of ${utterance.id}` }) : element("span", {}, `no recording${utterance.silent ? `: ${utterance.silent}` : ""}`);
  const heading = element("h3", {}, title, element("span", {}, ` ${utterance.set} · speaker ${utterance.speaker ?? "unknown"} · ${percent(utterance.rate)}`));
  return element("li", {}, element("div", { class: "spoken" }, heading, sound), ...parts);
}

function utterances() {
  const words = (pairs) => element("div", { class: "pairs" }, ...pairs.map(pair));
  at("s-worst").hidden = !data.worst.length;
  at("worst").replaceChildren(...data.worst.map((utterance) => spoken(utterance, utterance.id, ...utterance.recognised.map((arm) =>
    element("div", { class: "recognised" }, element("p", {}, swatch(arm.arm), `${arm.arm}, seed ${arm.seed}: ${percent(arm.rate)}`), words(arm.pairs))))));
  at("s-inspected").hidden = !data.inspected.length;
  at("inspected").replaceChildren(...data.inspected.map((utterance) => {
    const text = utterance.pairs.map(([reference, hypothesis]) => `${reference ?? "nothing"} as ${hypothesis ?? "nothing"}`).join(", ");
    return spoken(utterance, `The ${utterance.kind} utterance: ${utterance.id}`, words(utterance.pairs), picture(utterance.picture, `Features and posteriors of ${utterance.id}, recognised: ${text}`));
  }));
}

for (const part of [head, answer, controls, sections, utterances]) part();
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.addEventListener("DOMContentLoaded", () => loadPlotly().then(redraw).catch((error) => {
  at("curves").replaceChildren(element("p", {}, `Curves need a newer browser (${error.message}); the figure files next to this page also show them.`));
}).finally(() => { document.documentElement.dataset.ready = "yes"; }));
