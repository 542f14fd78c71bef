// The advanced form where scripts run: the query grows as one types, and the sites that this browser keeps are listed.

import { preferences, prefer } from "./preferences.js";

const form = document.querySelector("form.advanced");
const built = document.querySelector("#built code");
let timer = 0;

form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const address = `/advanced?${new URLSearchParams(new FormData(form))}`;
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    built.textContent = page.querySelector("#built code").textContent;
  }, 200);
});

const sites = document.getElementById("sites");

function show() {
  const kept = [...preferences()].sort();
  sites.hidden = !kept.length;
  sites.querySelector("ul").replaceChildren(
    ...kept.map(([host, value]) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = sites.dataset.forget;
      button.addEventListener("click", () => {
        prefer(host, 0);
        show();
      });
      item.append(`${value > 0 ? "+" : "−"} ${host} `, button);
      return item;
    }),
  );
}

show();
