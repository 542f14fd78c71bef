// The results page where scripts run: keys, and sites that are blocked or preferred. The page is whole without this.

import { preferences, prefer } from "./preferences.js";

const list = document.querySelector(".results");
const items = [...document.querySelectorAll(".results > li")];
const leftOut = document.querySelector(".left-out");

/** Put preferred sites first and take blocked ones out of sight; the order is otherwise as it came. */
function arrange() {
  const kept = preferences();
  const rank = (item) => -(kept.get(item.dataset.host) ?? 0);
  list.append(...[...items].sort((a, b) => rank(a) - rank(b) || items.indexOf(a) - items.indexOf(b)));
  let hidden = 0;
  for (const item of items) {
    const value = kept.get(item.dataset.host) ?? 0;
    item.hidden = value < 0;
    hidden += value < 0;
    item.classList.toggle("preferred", value > 0);
    for (const button of item.querySelectorAll("[data-value]")) button.hidden = Number(button.dataset.value) === value;
  }
  leftOut.hidden = !hidden;
  leftOut.firstElementChild.textContent = `${leftOut.dataset.one} ${hidden}`;
}

if (list) {
  for (const item of items) {
    const facts = item.querySelector(".facts");
    if (!item.dataset.host || !facts) continue;
    const more = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = "⋯";
    summary.setAttribute("aria-label", `${list.dataset.more} ${item.dataset.host}`);
    more.append(summary);
    for (const [value, text] of [[1, list.dataset.prefer], [-1, list.dataset.block], [0, list.dataset.forget]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.dataset.value = value;
      button.textContent = text;
      button.addEventListener("click", () => {
        prefer(item.dataset.host, value);
        more.open = false;
        arrange();
      });
      more.append(button, " ");
    }
    facts.append(more);
  }
  leftOut.querySelector("button").addEventListener("click", () => {
    for (const item of items) item.hidden = false;
    leftOut.hidden = true;
  });
  arrange();
}

/** `/` to the search field, `j` and `k` through the results; Enter opens, as on every link. */
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, select")) return;
  const links = [...document.querySelectorAll(".results > li:not([hidden]) h2 a")];
  const place = links.indexOf(document.activeElement);
  if (event.key === "/") document.querySelector("input[name=q]").select();
  else if (event.key === "j") links[Math.min(place + 1, links.length - 1)]?.focus();
  else if (event.key === "k") links[Math.max(place - 1, 0)]?.focus();
  else return;
  event.preventDefault();
});
