// What pages gain where scripts run: regions that keep themselves up to date. Every page is whole without this.

/** Fetch this page again and put its new region in place, unless nobody looks or somebody works in it. */
async function refresh(region) {
  const busy = () => document.hidden || region.contains(document.activeElement);
  if (busy()) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById(region.id);
  if (!fresh || busy()) return; // a button that is being pressed by now stays
  region.replaceChildren(...fresh.childNodes);
  if (!fresh.dataset.refresh) delete region.dataset.refresh; // the hunt has ended
}

for (const region of document.querySelectorAll("[data-refresh][id]")) {
  const wait = () => region.dataset.refresh && setTimeout(again, region.dataset.refresh * 1000);
  const again = () => refresh(region).catch(() => {}).finally(wait);
  wait();
}
