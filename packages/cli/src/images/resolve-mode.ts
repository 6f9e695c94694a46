/**
 * Whether a machine is cloned from a snapshot or boots an image, by what the image is. The API server fills in
 * `mode: clone` where a set leaves it out, so the decision is made before the set is sent.
 */
import type { agentModes } from "@cocoon/contract";
import { Fault, isFault } from "@cocoon/core/fault";
import type { Registry } from "@cocoon/oci";
import type { Session } from "../cluster/session.ts";
import { commandName } from "../invocation.ts";
import { didYouMean } from "../near-names.ts";

type AgentMode = (typeof agentModes)[number];

const defaultTag = "latest";
const mostNamed = 12;

/** Decided by the form of the reference alone; undefined when the image has to be looked up. */
export function modeByForm(image: string): AgentMode | undefined {
  if (/^(https?|file):/.test(image) || image.startsWith("/") || image.includes("@")) return "run";
  const [host = "", ...path] = image.split("/");
  // A snapshot is named without its registry; another registry holds images.
  return path.length > 0 && (/[.:]/.test(host) || host === "localhost") ? "run" : undefined;
}

/** Looks the image up: built-in, on this machine, in the registry. Throws when it is found nowhere. */
export async function resolveMode(
  image: string,
  session: Pick<Session, "target" | "signal">,
  registry: Registry | undefined,
): Promise<AgentMode> {
  const byForm = modeByForm(image);
  if (byForm) return byForm;
  const { listKnownImages, tryReadImage } = await import("./known-images.ts");
  const local = await listKnownImages(session, undefined); // the built-in ones are among them
  if (local.some(({ name }) => name === image)) return "run";
  if (!registry) return "clone";
  const { name, tag } = splitTag(image);
  const stored = await readOrExplain(image, () => tryReadImage(registry, { name, tag }, session));
  if (stored) return stored.kind === "snapshot" ? "clone" : "run";
  const known = await readOrExplain(image, () => listKnownImages(session, registry));
  throw notFound(
    image,
    known.map((each) => each.name),
  );
}

export function splitTag(image: string): { readonly name: string; readonly tag: string } {
  const at = image.lastIndexOf(":");
  return at > image.lastIndexOf("/")
    ? { name: image.slice(0, at), tag: image.slice(at + 1) }
    : { name: image, tag: defaultTag };
}

/** A registry that does not answer says nothing about the image. */
async function readOrExplain<T>(image: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!isFault(error)) throw error;
    throw new Fault(
      error.code,
      `--image ${image}: it could not be looked up in the registry (${error.message}); use --mode clone for a snapshot, --mode run for an image`,
      { cause: error },
    );
  }
}

export function notFound(image: string, known: readonly string[]): Fault {
  const named = known.slice(0, mostNamed).join(", ");
  const more = known.length > mostNamed ? ` and ${known.length - mostNamed} more` : "";
  const command = commandName();
  return new Fault(
    "notFound",
    `--image ${image} was not found${didYouMean(image, known)}; there are: ${named}${more}. \`${command} images\` lists images, \`${command} snapshot ls\` snapshots of machines. An image of another registry is named in full (docker.io/library/debian:12); --mode run or --mode clone skips this check`,
  );
}
