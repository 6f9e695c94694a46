/** What the server sends to the page about each object: plain data, as small as the page needs it. */

export interface MachineRow {
  readonly kind: "machine";
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly set: string;
  readonly role: string;
  readonly state: string;
  /** Why it is not at rest; "" when it is. */
  readonly message: string;
  readonly node: string;
  readonly ip: string;
  readonly cpu: string;
  readonly memory: string;
  readonly image: string;
  readonly os: string;
  readonly createdAt: string;
  readonly vmName: string;
  readonly forkedFrom: string;
  /** Digest of what it sleeps in, or woke from last. */
  readonly snapshot: string;
  readonly idleSince: string;
  readonly container: string;
  /** It was made with a screen. */
  readonly screen: boolean;
  readonly generation: number;
}

export interface SetMember {
  readonly podName: string;
  readonly role: string;
  readonly state: string;
  readonly node: string;
  readonly vmName: string;
  readonly forkedFrom: string;
  readonly snapshot: string;
}

export interface SetRow {
  readonly kind: "set";
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  readonly suspend: boolean;
  readonly ready: number;
  readonly desired: number;
  readonly replicas: number;
  readonly image: string;
  readonly node: string;
  readonly pool: string;
  readonly snapshotPolicy: string;
  readonly deletionPolicy: string;
  readonly createdAt: string;
  readonly deleting: boolean;
  readonly message: string;
  readonly members: readonly SetMember[];
}

export interface HibernationRow {
  readonly kind: "hibernation";
  readonly namespace: string;
  readonly name: string;
  readonly desire: string;
  readonly phase: string;
  readonly message: string;
  readonly digest: string;
  readonly since: string;
}

export interface NodeRow {
  readonly kind: "node";
  readonly namespace: "";
  readonly name: string;
  readonly ready: boolean;
  readonly message: string;
  readonly unschedulable: boolean;
  readonly pool: string;
  readonly cpu: string;
  readonly memory: string;
  readonly machines: string;
  /** Machines that it keeps frozen, because a pod of another node had them. */
  readonly frozen: number;
  /** Conditions that say that the host is short of something. */
  readonly pressure: readonly string[];
  /** The VM runtime and its version. */
  readonly runtime: string;
  readonly version: string;
  readonly createdAt: string;
}

export interface EventRow {
  readonly kind: "event";
  readonly namespace: string;
  readonly name: string;
  readonly about: string;
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  readonly firstAt: string;
  readonly lastAt: string;
  readonly source: string;
}

/** What a machine uses, as its node measured last. */
export interface UsageRow {
  readonly kind: "usage";
  readonly namespace: string;
  readonly name: string;
  readonly memoryBytes: number;
  /** Of it what no other machine shares. */
  readonly privateBytes: number;
  readonly diskBytes: number;
  /** When something was last sent or received; "" when nothing was since the dashboard started. */
  readonly trafficAt: string;
}

export type Row = MachineRow | SetRow | HibernationRow | NodeRow | EventRow | UsageRow;
export type RowKind = Row["kind"];

/**
 * One message of the live stream is a list of these. `reset` begins a new set of objects of a kind, `synced` ends it; what was
 * there before and is not in it is gone. `denied`: the user may not watch this kind.
 */
export type LiveChange =
  | { readonly op: "put"; readonly row: Row }
  | { readonly op: "delete"; readonly kind: RowKind; readonly namespace: string; readonly name: string }
  | { readonly op: "reset" | "synced"; readonly kind: RowKind }
  | { readonly op: "denied"; readonly kind: RowKind; readonly message: string }
  | { readonly op: "signedOut" };

/** How a browser may sign in, beside a token. */
export interface SignInMethods {
  /** Name of an OpenID Connect provider; "" without one. */
  readonly oidc: string;
}

/** What the page asks first. */
export interface Me {
  readonly user: string;
  readonly expiresAt: number;
  readonly readOnly: boolean;
  readonly version: string;
  /** Whether metrics of parts are configured. */
  readonly hasHealth: boolean;
  /** Whether a registry is configured. */
  readonly hasRegistry: boolean;
  /** Whether ports of machines can be opened through a gateway. */
  readonly hasGateway: boolean;
}

export interface SeriesData {
  readonly part: string;
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  /** Unix seconds, and the value at each; null where the part did not answer. */
  readonly times: readonly number[];
  readonly values: readonly (number | null)[];
}

export interface PartHealth {
  readonly name: string;
  readonly up: boolean;
  readonly version: string;
  readonly error: string;
}

export interface HealthData {
  readonly parts: readonly PartHealth[];
  readonly series: readonly SeriesData[];
}

/** A snapshot of a machine of a set. */
export interface SnapshotRow {
  readonly machine: string;
  readonly tag: string;
  readonly purpose: string;
  readonly bytes: number;
  readonly pushedAt: string;
  readonly digest: string;
}

export interface RepositoryRow {
  readonly name: string;
  readonly kind: string;
  readonly tags: number;
  readonly bytes: number;
  /** 0: no limit. */
  readonly quotaBytes: number;
  /** A machine sleeps in it. */
  readonly hibernated: boolean;
  readonly updatedAt: string;
}

export interface TokenRow {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly createdBy: string;
  readonly expiresAt: string;
  readonly lastUsed: string;
}

export interface RegistryData {
  readonly repositories: readonly RepositoryRow[];
  readonly tags: number;
  readonly blobs: number;
  /** What the repositories would need if they shared nothing. */
  readonly totalBytes: number;
  /** What is stored, each blob once; 0 when the registry does not say. */
  readonly storedBytes: number;
  /** Undefined when the dashboard's token may not list tokens. */
  readonly tokens: readonly TokenRow[] | undefined;
}
