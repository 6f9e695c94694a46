/** create: a set from flags or from files. Nothing is sent with `--dry-run`, or only to be checked. */
import { readFile } from "node:fs/promises";
import { text as readStream } from "node:stream/consumers";
import { apiVersion, readCocoonSetSpec } from "@cocoon/contract";
import { Fault, isFault } from "@cocoon/core";
import { awaitSet } from "../cluster/await-set.ts";
import { getName } from "../cluster/find.ts";
import { cocoonSets, type SetObject } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { lookAtRest } from "../cluster/set-progress.ts";
import { createWaiter, type WaitOptions } from "../cluster/wait.ts";
import { commandName } from "../invocation.ts";
import { readFormat, serialize, withoutManagedFields } from "../output.ts";
import { setFromFlags, type SetFlags } from "../cluster/set-from-flags.ts";
import { clusterOptions, waitOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "create [name]",
  summary: "make a set from flags or a file, and wait until it runs",
  description:
    "Makes a CocoonSet: a main agent, sub-agents forked from it, toolboxes beside it. What exists already is not changed.",
  options: {
    "--cpu <amount>": "CPUs of each machine, such as 2 or 500m (default: the node's or the snapshot's)",
    "--memory <amount>":
      "memory of each machine, such as 512Mi or 4Gi (default: the node's or the snapshot's)",
    "--storage <amount>": "size of each root volume, such as 20Gi (default: the image's)",
    "--replicas <number>": "sub-agents beside the main agent (default: 0)",
    "--toolbox <name=image...>": "a further machine, booted from its image; may be repeated (default: none)",
    "--os <system>": "linux, windows, android or macos (default: linux)",
    "--backend <name>": "cloud-hypervisor, firecracker or qemu: a preference (default: cloud-hypervisor)",
    "--conn-type <type>": "protocol to reach it by: ssh, rdp, vnc or adb (default: by the system)",
    "--probe-port <port>":
      "TCP port that answers when the guest is ready (default: none, the node checks by ping or agent)",
    "--pool <name>": "pool of nodes to run on (default: default)",
    "--node <name>": "node of the main agent (default: the scheduler chooses)",
    "--snapshot-policy <policy>":
      "always, main-only or never: which machines leave a snapshot when deleted (default: always)",
    "--hibernate-policy <policy>": "retain or release the pods of hibernated machines (default: retain)",
    "-f, --filename <path>":
      "CocoonSets from a YAML or JSON file; - reads standard input (default: a set from the flags)",
    "--image <reference>":
      "what the machines start from: a snapshot repo[:tag], an image or its address (default: none)",
    "--mode <mode>": "clone a snapshot or run (boot) an image (default: by what the image is)",
    "--suspended": "create it suspended",
    "--dry-run [how]":
      "print what would be created: client (checked here) or server (checked there) (default: none)",
    "-o, --output <format>": "print what was created: json, yaml or name (default: one line)",
    ...waitOptions("10m"),
    ...clusterOptions,
  },
  examples: [
    "cocoonctl create a1 --image cocoon-demo",
    "cocoonctl create web --image team/base:v1 --cpu 2 --memory 2Gi --replicas 2",
    "cocoonctl create box --image https://images.example/debian.qcow2 --memory 1Gi --storage 20Gi",
    "cocoonctl create -f set.yaml --dry-run=server",
    "cocoonctl create web --image team/base:v1 --dry-run > set.yaml",
  ],
  run: create,
};

interface CreateOptions extends ClusterOptions, WaitOptions, SetFlags {
  readonly filename?: string;
  /** `client` checks here, `server` lets the API server and the webhook check. */
  readonly dryRun?: string | true;
  readonly output?: string;
}

const largestFileBytes = 4 * 1024 * 1024;

async function create(name: string | undefined, options: CreateOptions): Promise<void> {
  const wait = createWaiter(options);
  const dryRun = readDryRun(options.dryRun);
  const format = options.output === undefined ? undefined : readPrintFormat(options.output);
  const wanted = await wantedSets(name, options);
  for (const set of wanted) assertNamespace(set, options);
  const show = async (sets: readonly SetObject[]) =>
    void process.stdout.write(await printed(sets.map(withoutManagedFields), format ?? "yaml"));
  if (dryRun === "client") {
    for (const set of wanted) assertReadable(set);
    return show(wanted.map((set) => inNamespace(set, options.namespace)));
  }
  await using session = await openSession(options);
  const made: SetObject[] = [];
  for (const set of await withModes(wanted, session, options))
    made.push(await send(session, inNamespace(set, session.namespace), dryRun === "server"));
  if (dryRun === "server" || format) await show(made);
  if (dryRun === "server") return;
  if (!format) process.stdout.write(made.map((set) => `${getName(set)}: created\n`).join(""));
  await wait(
    made.map((set) => awaitSet(session, set, lookAtRest)),
    session,
  );
  if (!format) process.stdout.write(nextText(made, session));
}

/** A set from flags without --mode gets the one that fits its image; files are sent as they are. */
async function withModes(
  wanted: readonly SetObject[],
  session: Session,
  options: CreateOptions,
): Promise<readonly SetObject[]> {
  const { filename, mode, image } = options;
  if (filename !== undefined || mode !== undefined || image === undefined) return wanted;
  const { resolveMode } = await import("../images/resolve-mode.ts");
  const { tryOpenRegistry } = await import("../snapshots/registry-access.ts");
  await using registry = await tryOpenRegistry({}, session.target);
  const resolved = await resolveMode(image, session, registry);
  return wanted.map((set) =>
    set.spec ? { ...set, spec: { ...set.spec, agent: { ...set.spec.agent, mode: resolved } } } : set,
  );
}

type PrintFormat = "json" | "yaml" | "name";

function readPrintFormat(text: string): PrintFormat {
  return readFormat(text, ["json", "yaml", "name"]) as PrintFormat;
}

async function printed(sets: readonly SetObject[], format: PrintFormat): Promise<string> {
  if (format === "name") return sets.map((set) => `cocoonset/${getName(set)}\n`).join("");
  const texts = await Promise.all(sets.map((set) => serialize(format, set)));
  return texts.join(format === "yaml" ? "---\n" : "");
}

export function readDryRun(value: string | true | undefined): "none" | "client" | "server" {
  if (value === undefined || value === "none") return "none";
  if (value === true || value === "client") return "client";
  if (value === "server") return "server";
  throw new Fault(
    "badRequest",
    `--dry-run=${value}: use client (check here, print) or server (let the server check, print)`,
  );
}

async function wantedSets(name: string | undefined, options: CreateOptions): Promise<readonly SetObject[]> {
  if (options.filename === undefined) {
    if (name === undefined)
      throw new Fault(
        "badRequest",
        `a set needs a name: ${commandName()} create NAME --image IMAGE, or ${commandName()} create -f FILE`,
      );
    return [setFromFlags(name, options)];
  }
  if (name !== undefined)
    throw new Fault(
      "badRequest",
      "a name and -f contradict each other: the names stand in the file (metadata.name)",
    );
  return readSets(await fileText(options.filename), options.filename);
}

async function fileText(path: string): Promise<string> {
  const text =
    path === "-"
      ? await readStream(process.stdin)
      : await readFile(path, "utf8").catch((error: unknown) => {
          throw new Fault("badRequest", `-f ${path} cannot be read`, { cause: error });
        });
  if (text.length > largestFileBytes) throw new Fault("tooLarge", `-f ${path} has more than 4 MiB`);
  return text;
}

/** Every CocoonSet of a YAML or JSON text; anything else in it is refused, so that nothing is left out silently. */
export async function readSets(text: string, where: string): Promise<readonly SetObject[]> {
  const { parseAllDocuments } = await import("yaml");
  const documents = parseAllDocuments(text);
  const objects = [...documents].flatMap((document) => {
    const [error] = document.errors;
    if (error) throw new Fault("badRequest", `-f ${where} is not YAML: ${error.message.split("\n")[0]}`);
    const value: unknown = document.toJS();
    return value === null || value === undefined ? [] : [value as SetObject];
  });
  for (const [index, { apiVersion: version, kind, metadata }] of objects.entries()) {
    const place = `-f ${where}, document ${index + 1}`;
    if (kind !== "CocoonSet" || version !== apiVersion)
      throw new Fault(
        "badRequest",
        `${place}: is ${version ?? "?"} ${kind ?? "?"}, not ${apiVersion} CocoonSet; use kubectl apply for other kinds`,
      );
    if (!metadata?.name) throw new Fault("badRequest", `${place}: metadata.name is missing`);
  }
  if (objects.length === 0) throw new Fault("badRequest", `-f ${where} holds no CocoonSet`);
  return objects;
}

/** The file may name the namespace, but no other than `-n`. */
function assertNamespace({ metadata }: SetObject, { namespace }: CreateOptions): void {
  if (namespace === undefined || metadata.namespace === undefined || metadata.namespace === namespace) return;
  throw new Fault(
    "badRequest",
    `-n ${namespace}: ${metadata.name} is in namespace ${metadata.namespace} by its file; leave -n out, or change metadata.namespace`,
  );
}

function inNamespace(set: SetObject, namespace: string | undefined): SetObject {
  if (namespace === undefined || set.metadata.namespace) return set;
  return { ...set, metadata: { ...set.metadata, namespace } };
}

function assertReadable({ metadata, spec }: SetObject): void {
  try {
    readCocoonSetSpec(spec);
  } catch (error) {
    throw isFault(error, "invalid")
      ? new Fault("invalid", `${metadata.name}: ${error.message}`, { cause: error })
      : error;
  }
}

async function send({ client, signal }: Session, set: SetObject, dryRun: boolean): Promise<SetObject> {
  try {
    return await client.create(cocoonSets, set, { signal, dryRun });
  } catch (error) {
    const name = getName(set);
    if (isFault(error, "alreadyExists"))
      throw new Fault(
        "alreadyExists",
        `there is a set ${name} in namespace ${set.metadata.namespace} already; change it with kubectl apply or edit, or choose another name`,
      );
    if (isFault(error, "notFound"))
      throw new Fault(
        "notFound",
        `cannot create ${name}: namespace ${set.metadata.namespace} or the CocoonSet definition is missing`,
        { cause: error },
      );
    throw error;
  }
}

function nextText(made: readonly SetObject[], { namespace }: Session): string {
  const [first] = made;
  const name = first ? getName(first) : "NAME";
  const own = first?.metadata.namespace ?? namespace;
  const flag = own === "default" ? "" : ` -n ${own}`;
  const command = commandName();
  return `
Next:
  ${command} get ${name}${flag}        where it runs, in which state
  ${command} exec ${name}${flag}       a shell in its main agent
  ${command} suspend ${name}${flag}    put it to sleep; resume wakes it
`;
}
