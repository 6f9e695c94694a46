/** Dark or light: the system's choice, until the user makes one. */
const key = "cocoon-theme";

function readTheme(): "dark" | "light" {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "dark" || chosen === "light") return chosen;
  return globalThis.matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
}

export function switchTheme(): void {
  const next = readTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset["theme"] = next;
  localStorage.setItem(key, next);
}

export function restoreTheme(): void {
  const kept = localStorage.getItem(key);
  if (kept === "dark" || kept === "light") document.documentElement.dataset["theme"] = kept;
}
