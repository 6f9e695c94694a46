/**
 * Builds a kustomization without kustomize: as much of it as our own roots use, so that generated files need no Go
 * program. What is not known here is an error, never passed over; test/integration/deploy compares with kubectl's.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { applyJsonPatch, type JsonPatchOperation } from "@cocoon/core/json-patch";
import { parse, parseAllDocuments } from "yaml";
import * as z from "zod";

/** kubectl and Helm read YAML 1.1, in which 0440 is an octal number. */
const kubernetesYaml = { version: "1.1" } as const;

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

const kustomization = z.strictObject({
  apiVersion: z.string(),
  kind: z.enum(["Kustomization", "Component"]),
  /** Our objects carry their namespace already, so this changes nothing and is only checked. */
  namespace: z.string().optional(),
  resources: z.array(z.string()).default([]),
  components: z.array(z.string()).default([]),
  patches: z
    .array(
      z.strictObject({ target: z.strictObject({ kind: z.string(), name: z.string() }), patch: z.string() }),
    )
    .default([]),
  images: z.array(z.strictObject({ name: z.string(), newTag: z.string() })).default([]),
});
type Kustomization = z.infer<typeof kustomization>;

const deletion = z.object({ $patch: z.literal("delete") });

const manifestSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string(),
    namespace: z.string().exactOptional(),
    labels: z.record(z.string(), z.string()).exactOptional(),
  }),
});

/** All objects of the root in `directory`, in the order in which they are named. */
export function buildKustomization(directory: string): Manifest[] {
  return build(directory, []);
}

function build(directory: string, accumulated: readonly Manifest[]): Manifest[] {
  const root = readRoot(directory);
  const resources = root.resources.flatMap((entry) => readResource(join(directory, entry)));
  let objects = [...accumulated, ...resources];
  assertDistinct(objects, directory);
  for (const component of root.components) objects = build(join(directory, component), objects);
  for (const patch of root.patches) objects = applyPatch(objects, patch);
  for (const image of root.images) objects = objects.map((object) => withTag(object, image) as Manifest);
  const strangers = objects.filter(
    ({ metadata }) =>
      root.namespace !== undefined && (metadata.namespace ?? root.namespace) !== root.namespace,
  );
  if (strangers.length > 0)
    throw new Error(`${directory}: objects of other namespaces than ${root.namespace}`);
  return objects;
}

function readRoot(directory: string): Kustomization {
  const path = ["kustomization.yaml", "Kustomization"]
    .map((name) => join(directory, name))
    .find((each) => existsSync(each));
  if (path === undefined) throw new Error(`${directory} holds no kustomization`);
  const read = kustomization.safeParse(parse(readFileSync(path, "utf8"), kubernetesYaml));
  if (read.success) return read.data;
  throw new Error(`${relative(".", path)}: ${z.prettifyError(read.error)}`);
}

function readResource(path: string): Manifest[] {
  return statSync(path).isDirectory() ? build(path, []) : readManifests(path);
}

export function readManifests(path: string): Manifest[] {
  return parseAllDocuments(readFileSync(path, "utf8"), kubernetesYaml)
    .map((document) => document.toJS() as unknown)
    .map((object) => manifestSchema.parse(object));
}

export function readIdentity({ apiVersion, kind, metadata }: Manifest): string {
  return [apiVersion, kind, metadata.namespace ?? "", metadata.name].join("/");
}

function assertDistinct(objects: readonly Manifest[], directory: string): void {
  const identities = objects.map(readIdentity);
  const twice = identities.filter((identity, index) => identities.indexOf(identity) !== index);
  if (twice.length > 0) throw new Error(`${directory} names twice: ${twice.join(", ")}`);
}

function applyPatch(
  objects: readonly Manifest[],
  { target, patch }: Kustomization["patches"][number],
): Manifest[] {
  const content: unknown = parse(patch, kubernetesYaml);
  const matches = ({ kind, metadata }: Manifest) => kind === target.kind && metadata.name === target.name;
  if (deletion.safeParse(content).success) return objects.filter((object) => !matches(object));
  if (!Array.isArray(content))
    throw new Error(`${target.kind} ${target.name}: only JSON patches and deletions are known here`);
  return objects.map((object) =>
    matches(object)
      ? manifestSchema.parse(applyJsonPatch(object, content as readonly JsonPatchOperation[]))
      : object,
  );
}

type Image = Kustomization["images"][number];

/** Every field `image` of that name gets the tag, wherever it is. */
function withTag(value: unknown, image: Image): unknown {
  if (Array.isArray(value)) return value.map((each) => withTag(each, image));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]: [string, unknown]) => [
      key,
      key === "image" && typeof inner === "string" && inner.replace(/:[^:/]*$/, "") === image.name
        ? `${image.name}:${image.newTag}`
        : withTag(inner, image),
    ]),
  );
}
