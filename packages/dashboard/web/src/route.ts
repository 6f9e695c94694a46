/** Addresses of the page's own routes. Links are real links; the browser's history does the rest. */
import { useSyncExternalStore } from "react";

const changed = "cocoon-route";

export function navigate(path: string): void {
  globalThis.history.pushState(null, "", path);
  globalThis.dispatchEvent(new Event(changed));
}

function subscribe(listener: () => void): () => void {
  globalThis.addEventListener("popstate", listener);
  globalThis.addEventListener(changed, listener);
  return () => {
    globalThis.removeEventListener("popstate", listener);
    globalThis.removeEventListener(changed, listener);
  };
}

/** The parts of the path, decoded: `/machines/ns/name` → ["machines", "ns", "name"]. */
export function useRoute(): readonly string[] {
  const path = useSyncExternalStore(subscribe, () => globalThis.location.pathname);
  return path
    .split("/")
    .filter((part) => part !== "")
    .map(decodePart);
}

/** A value of the address's query; "" where it is not given. */
export function useQueryValue(name: string): string {
  const query = useSyncExternalStore(subscribe, () => globalThis.location.search);
  return new URLSearchParams(query).get(name) ?? "";
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function buildPath(...parts: readonly string[]): string {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}
