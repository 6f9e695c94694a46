/** One object offered to an admission authority (API server, webhook) and what it must say. */
export interface SchemaCase {
  readonly name: string;
  readonly spec: unknown;
  /** The spec it replaces: the case is an update then, and this one must be accepted first. */
  readonly from?: unknown;
  /** Name of the object, where the case is about names. */
  readonly objectName?: string;
  /** Texts that the refusal must contain; absent means that the object is accepted. */
  readonly refused?: readonly string[];
  /** What the API server must have filled in, as a part of the stored spec. */
  readonly filled?: unknown;
}

type Spec = Readonly<Record<string, unknown>>;

const image = "team/base:v7";

/** A set whose agent differs from the plainest one in these fields. */
export function agent(fields: Spec, rest: Spec = {}): Spec {
  return { agent: { image, ...fields }, ...rest };
}

/** A set with one toolbox that differs from the plainest one in these fields. */
export function toolbox(fields: Spec, rest: Spec = {}): Spec {
  return { agent: { image }, toolboxes: [{ name: "box", image: "desktop:24", ...fields }], ...rest };
}

export function accepts(name: string, spec: unknown, more: Partial<SchemaCase> = {}): SchemaCase {
  return { name, spec, ...more };
}

export function refuses(name: string, spec: unknown, ...texts: readonly string[]): SchemaCase {
  return { name, spec, refused: texts };
}
