"use strict";
/* Create elements and tables. Values are inserted as text, never as markup, because strangers may have written the data. */

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/* Return the number at the start of a cell, or NaN if the cell does not start with a number. */
const numberIn = (cell) => (/^[−+\d]/.test(cell) ? parseFloat(cell.replace("−", "-").replace(/,/g, "")) : NaN);
const isEmpty = (cell) => ["", "NA", "–"].includes(cell);

function compare(a, b) {
  return numberIn(a) - numberIn(b) || a.localeCompare(b, "en", { numeric: true });
}

/* Create a table. A click on a column head sorts the rows, and a second click reverses the order; empty cells come last. */
function table({ head, rows }, caption) {
  const body = element("tbody");
  const numeric = head.map((_, column) => rows.every((row) => isEmpty(row[column]) || !Number.isNaN(numberIn(row[column]))));
  const heads = head.map((title, column) => {
    const button = element("button", { type: "button" }, title);
    const cell = element("th", { scope: "col", "aria-sort": "none", class: numeric[column] ? "number" : "" }, button);
    button.addEventListener("click", () => {
      const order = cell.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      const sign = order === "ascending" ? 1 : -1;
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      cell.setAttribute("aria-sort", order);
      fill([...rows].sort(({ [column]: a }, { [column]: b }) => isEmpty(a) - isEmpty(b) || sign * compare(a, b)));
    });
    return cell;
  });
  const look = (cell, column) => [numeric[column] ? "number" : cell.length > 40 ? "text" : "", OUTCOMES[cell] ?? ""].join(" ").trim();
  function fill(ordered) {
    body.replaceChildren(...ordered.map((row) => element("tr", {}, ...row.map((cell, column) =>
      element("td", { class: look(cell, column) }, column || head[0] !== "arm" ? null : swatch(cell), cell)))));
  }
  fill(rows);
  const whole = element("table", { "aria-label": caption }, element("thead", {}, element("tr", {}, ...heads)), body);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, whole);
}
const OUTCOMES = { better: "good", worse: "bad" };

function picture(address, alt) {
  return element("div", { class: "picture", tabindex: "0", role: "region", "aria-label": alt }, element("img", { src: address, alt }));
}
