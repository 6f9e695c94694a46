/** What the live stream said so far: the rows of each kind, and whether the stream is open. React reads it as a store. */
import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { LiveChange, Row, RowKind } from "../../../src/shared/rows.ts";
import { session, signedOutEvent } from "../api/client.ts";

type RowOf<K extends RowKind> = Extract<Row, { readonly kind: K }>;

export interface KindState {
  readonly rows: ReadonlyMap<string, Row>;
  readonly synced: boolean;
  readonly denied: string;
}

const nothing: KindState = { rows: new Map(), synced: false, denied: "" };
export type Connection = "connecting" | "live" | "reconnecting";

export function buildKey(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}

export class LiveStore {
  readonly #states = new Map<RowKind, KindState>();
  /** What a new list has shown so far; what is not in it goes when the list is complete. */
  readonly #listed = new Map<RowKind, Set<string>>();
  readonly #listeners = new Set<() => void>();
  #connection: Connection = "connecting";

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  connection = (): Connection => this.#connection;

  state(kind: RowKind): KindState {
    return this.#states.get(kind) ?? nothing;
  }

  setConnection(connection: Connection): void {
    this.#connection = connection;
    this.#notify();
  }

  apply(changes: readonly LiveChange[]): void {
    const rows = new Map<RowKind, Map<string, Row>>();
    const edit = (kind: RowKind) => {
      const known = rows.get(kind) ?? new Map(this.state(kind).rows);
      rows.set(kind, known);
      return known;
    };
    for (const change of changes) this.#applyOne(change, edit);
    for (const [kind, changed] of rows) this.#states.set(kind, { ...this.state(kind), rows: changed });
    this.#notify();
  }

  #applyOne(change: LiveChange, edit: (kind: RowKind) => Map<string, Row>): void {
    switch (change.op) {
      case "put": {
        const key = buildKey(change.row.namespace, change.row.name);
        edit(change.row.kind).set(key, change.row);
        this.#listed.get(change.row.kind)?.add(key);
        return;
      }
      case "delete":
        edit(change.kind).delete(buildKey(change.namespace, change.name));
        return;
      case "reset":
        this.#listed.set(change.kind, new Set());
        return;
      case "synced": {
        removeUnlisted(edit(change.kind), this.#listed.get(change.kind));
        this.#listed.delete(change.kind);
        this.#states.set(change.kind, { ...this.state(change.kind), synced: true, denied: "" });
        return;
      }
      case "denied":
        this.#states.set(change.kind, { rows: new Map(), synced: true, denied: change.message });
        return;
      case "signedOut":
        globalThis.dispatchEvent(new Event(signedOutEvent));
    }
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

function removeUnlisted(known: Map<string, Row>, listed: ReadonlySet<string> | undefined): void {
  if (listed) for (const key of known.keys()) if (!listed.has(key)) known.delete(key);
}

/** Opens the stream for as long as the component is there. */
export function useLiveStore(query: string): LiveStore {
  const store = useMemo(() => {
    void query; // another query is another store
    return new LiveStore();
  }, [query]);
  useEffect(() => followStream(store, `/api/live${query}`), [query, store]);
  return store;
}

const reopenMs = 3_000;

/**
 * Fills the store until the returned function is called. Only while the tab is in sight: browsers open few connections to one
 * server, and tabs in the background would take them all. The rows stay, and are brought up to date when the tab comes back.
 */
function followStream(store: LiveStore, address: string): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = undefined;
  };
  const open = () => {
    close();
    if (document.hidden) return;
    const opened = new EventSource(address);
    source = opened;
    opened.addEventListener("open", () => store.setConnection("live"));
    opened.addEventListener("message", ({ data }: MessageEvent<string>) =>
      store.apply(JSON.parse(data) as LiveChange[]),
    );
    opened.addEventListener("error", () => {
      store.setConnection("reconnecting");
      // Whether the session ended: the stream itself does not say why it was refused.
      void session.me().catch(() => undefined);
      // The browser reopens a stream that broke, but not one that was refused.
      if (opened.readyState === EventSource.CLOSED) timer = setTimeout(open, reopenMs);
    });
  };
  open();
  document.addEventListener("visibilitychange", open);
  return () => {
    document.removeEventListener("visibilitychange", open);
    close();
  };
}

export interface KindRows<K extends RowKind> extends Omit<KindState, "rows"> {
  readonly rows: ReadonlyMap<string, RowOf<K>>;
}

/** A map of a kind holds only rows of that kind. */
export function useKind<K extends RowKind>(store: LiveStore, kind: K): KindRows<K> {
  return useSyncExternalStore(store.subscribe, () => store.state(kind)) as KindRows<K>;
}

export function useConnection(store: LiveStore): Connection {
  return useSyncExternalStore(store.subscribe, store.connection);
}
