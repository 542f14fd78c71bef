// Which sites a reader blocks (-1) or prefers (1): kept in this browser, told to nobody.

const KEY = "lycosa.sites";

export function preferences() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return new Map(Object.entries(kept).filter(([, value]) => value === 1 || value === -1));
  } catch {
    return new Map(); // storage may be switched off
  }
}

export function prefer(host, value) {
  const kept = preferences();
  if (value) kept.set(host, value);
  else kept.delete(host);
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(kept)));
  } catch {
    // nothing is kept then
  }
}
