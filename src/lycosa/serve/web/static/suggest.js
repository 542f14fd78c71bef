// Suggestions under the search field, where scripts run: the field is whole without this. (WAI-ARIA 1.2, combobox with a list.)

const WAIT_MS = 120; // after the last key

for (const field of document.querySelectorAll("form.search input[name=q]")) {
  const form = field.form;
  const list = document.createElement("ul");
  list.className = "suggestions";
  list.id = "suggestions";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", field.getAttribute("aria-label"));
  field.closest(".field").append(list);
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", list.id]]) {
    field.setAttribute(name, value);
  }
  let typed = field.value; // what the person wrote, while a suggestion stands in the field
  let timer = 0;
  let asking = null;

  const chosen = () => list.querySelector("[aria-selected=true]");

  function close() {
    clearTimeout(timer);
    asking?.abort();
    list.hidden = true;
    list.replaceChildren();
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  }

  function choose(item) {
    chosen()?.setAttribute("aria-selected", "false");
    field.removeAttribute("aria-activedescendant");
    if (item) {
      item.setAttribute("aria-selected", "true");
      field.setAttribute("aria-activedescendant", item.id);
    }
    field.value = item ? item.textContent : typed;
  }

  function show(suggestions) {
    list.replaceChildren(...suggestions.map((suggestion, number) => {
      const item = document.createElement("li");
      item.id = `suggestion-${number}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      item.dir = "auto";
      if (suggestion.language) item.lang = suggestion.language;
      item.textContent = suggestion.text; // a stranger's: never markup
      return item;
    }));
    list.hidden = !suggestions.length;
    field.setAttribute("aria-expanded", String(!list.hidden));
  }

  async function ask() {
    asking?.abort();
    asking = new AbortController();
    const query = new URLSearchParams({ q: typed, n: "8", lang: form.elements.lang?.value ?? "" });
    const answer = await fetch(`/api/v1/suggest?${query}`, { signal: asking.signal });
    if (answer.ok && document.activeElement === field) show((await answer.json()).suggestions);
  }

  field.addEventListener("input", (event) => {
    typed = field.value;
    if (event.isComposing) return;
    if (!typed.trim()) return close();
    clearTimeout(timer);
    timer = setTimeout(() => ask().catch(() => {}), WAIT_MS); // without an answer there is nothing to show
  });
  field.addEventListener("compositionend", () => {
    typed = field.value;
    if (typed.trim()) ask().catch(() => {});
  });
  field.addEventListener("keydown", (event) => {
    if (list.hidden || event.isComposing) return;
    const items = [...list.children];
    const place = items.indexOf(chosen());
    if (event.key === "ArrowDown") choose(items[place + 1] ?? null);
    else if (event.key === "ArrowUp") choose(place < 0 ? items.at(-1) : items[place - 1] ?? null);
    else if (event.key === "Escape") {
      choose(null);
      close();
    } else return;
    event.preventDefault();
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", (event) => {
    const item = event.target.closest("li");
    if (!item) return;
    choose(item);
    close();
    form.requestSubmit();
  });
  field.addEventListener("blur", close);
  form.addEventListener("submit", close);
}
