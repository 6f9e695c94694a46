/** What every part of the page may need: who is signed in, and the live rows. */
import { createContext, useContext } from "react";
import type { Me } from "../../../src/shared/rows.ts";
import type { LiveStore } from "../live/store.ts";

export interface PageContext {
  readonly me: Me;
  readonly store: LiveStore;
  readonly namespace: string;
}

export const PageProvider = createContext<PageContext | undefined>(undefined);

export function usePage(): PageContext {
  const context = useContext(PageProvider);
  if (!context) throw new Error("used outside of the page");
  return context;
}
