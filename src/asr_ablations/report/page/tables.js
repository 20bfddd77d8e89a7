"use strict";
/* Elements, numbers and tables. Text goes in as text, never as markup: it comes from files that anyone may have written. */

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/* The metric that the values of a column are of: the one in its name, or the one that the comparison is about. */
function metricOf(key) {
  const named = /(^|[_\/ ])(wer|cer|loss)($|[_ ])/.exec(key);
  if (named) return data.metrics[named[2]];
  return /^(target|low|high|difference|detectable|error_over_seeds|error_over_speakers|baseline_mean|arm_mean|mean|deviation)$/.test(key) ? data.metrics[data.metric] : null;
}

function digits(value, places) {
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
}

/* A cell's text. Rates are fractions in the data and percent on the page; losses are nats in both. */
function shown(key, value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map((each) => shown(key, each)).join(" to ");
  if (typeof value === "object") return JSON.stringify(value);
  if (typeof value !== "number") return String(value);
  const metric = metricOf(key);
  if (metric) return digits(metric.scale * value, metric.places);
  if (/^p(_|$)/.test(key)) return value < 0.001 ? "< 0.001" : digits(value, 3);
  if (Number.isInteger(value)) return digits(value, 0);
  return Math.abs(value) >= 100 ? digits(value, 0) : Math.abs(value) >= 1 ? digits(value, 2) : value.toPrecision(3);
}

function heading(key) {
  const metric = metricOf(key);
  const unit = !metric ? "" : metric.is_rate ? " %" : `, ${metric.unit}`;
  return key.replace(/_/g, " ").replace(/\b(wer|cer)\b/g, (rate) => rate.toUpperCase()) + unit;
}

function compare(a, b) {
  const empty = (value) => value === null || value === undefined || value === "";
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/* rows: objects; columns: {key, title?, cell?, value?}. A click on a head sorts the rows, a second click reverses the order. */
function table(place, rows, columns, caption) {
  const body = element("tbody");
  const heads = columns.map((column) => {
    const button = element("button", { type: "button" }, column.title ?? heading(column.key));
    const head = element("th", { scope: "col", "aria-sort": "none" }, button);
    button.addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", order);
      const value = column.value ?? ((row) => row[column.key]);
      const sign = order === "ascending" ? 1 : -1;
      const missing = (row) => value(row) === null || value(row) === undefined;
      fill([...rows].sort((a, b) => (missing(a) || missing(b) ? compare(value(a), value(b)) : sign * compare(value(a), value(b)))));
    });
    return head;
  });
  const numeric = new Map(columns.map((column) => [column, rows.every((row) => typeof (row[column.key] ?? 0) === "number") && (!column.cell || column.number)]));
  columns.forEach((column, number) => numeric.get(column) && heads[number].classList.add("number"));
  function fill(ordered) {
    body.replaceChildren(...ordered.map((row) => element("tr", {}, ...columns.map((column) => {
      const content = column.cell ? column.cell(row) : shown(column.key, row[column.key]);
      const long = typeof content === "string" && content.length > 40;
      return element("td", { class: numeric.get(column) ? "number" : long ? "text" : "" }, content);
    }))));
  }
  fill(rows);
  const head = element("thead", {}, element("tr", {}, ...heads));
  document.getElementById(place).replaceChildren(element("table", { "aria-label": caption }, head, body));
}

/* The columns of the rows, in the order in which they first occur. */
function keys(rows) {
  return [...new Set(rows.flatMap(Object.keys))];
}
