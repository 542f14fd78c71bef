// What pages gain where scripts run: regions that keep themselves up to date. Every page is whole without this.

/** Fetch this page again and put its new region in place, unless nobody looks or somebody works in it. */
async function refresh(region) {
  const busy = () => document.hidden || region.contains(document.activeElement);
  if (busy()) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById(region.id);
  if (fresh && !busy()) region.replaceChildren(...fresh.childNodes); // a button that is being pressed by now stays
}

for (const region of document.querySelectorAll("[data-refresh][id]")) {
  const again = () => refresh(region).catch(() => {}).finally(() => setTimeout(again, region.dataset.refresh * 1000));
  setTimeout(again, region.dataset.refresh * 1000);
}
