/** A CocoonSet from the flags of `create`. Pure. */
import {
  agentModes,
  apiVersion,
  backends,
  connectionTypes,
  guestSystems,
  hibernatePolicies,
  snapshotPolicies,
} from "@cocoon/contract";
import { Fault } from "@cocoon/core/fault";
import { tryParseQuantity } from "@cocoon/core/quantity";
import type { SetObject } from "./kinds.ts";
import { modeByForm } from "../images/resolve-mode.ts";
import { commandName } from "../invocation.ts";
import { readReplicas } from "../commands/scale.ts";

export interface SetFlags {
  readonly image?: string;
  readonly mode?: string;
  readonly cpu?: string;
  readonly memory?: string;
  readonly storage?: string;
  readonly replicas?: string;
  readonly os?: string;
  readonly backend?: string;
  readonly connType?: string;
  readonly pool?: string;
  readonly node?: string;
  readonly snapshotPolicy?: string;
  readonly hibernatePolicy?: string;
  readonly probePort?: string;
  /** `name=image`, any number of them. */
  readonly toolbox?: readonly string[];
  readonly suspended?: boolean;
}

export function setFromFlags(name: string, flags: SetFlags): SetObject {
  if (flags.image === undefined)
    throw new Fault(
      "badRequest",
      `--image is missing: a snapshot, an image or its address; \`${commandName()} images\` and \`${commandName()} snapshot ls\` list what there is`,
    );
  const machine = {
    ...readResources(flags),
    ...quantity("storage", flags.storage),
    ...choice("os", flags.os, guestSystems),
    ...choice("backend", flags.backend, backends),
  };
  const toolboxes = (flags.toolbox ?? []).map((text) => ({ ...readToolbox(text), ...machine }));
  const spec = {
    ...(flags.suspended ? { suspend: true } : {}),
    ...text("nodePool", flags.pool),
    ...text("nodeName", flags.node),
    ...choice("snapshotPolicy", flags.snapshotPolicy, snapshotPolicies),
    ...choice("hibernatePolicy", flags.hibernatePolicy, hibernatePolicies),
    agent: {
      image: flags.image,
      mode: readMode(flags),
      ...(flags.replicas === undefined ? {} : { replicas: readReplicas(flags.replicas, "--replicas") }),
      ...machine,
      ...choice("connType", flags.connType, connectionTypes),
      ...port(flags.probePort),
    },
    ...(toolboxes.length > 0 ? { toolboxes } : {}),
  };
  return { apiVersion, kind: "CocoonSet", metadata: { name }, spec } as SetObject;
}

/** `clone` where neither the user nor the reference says: as the API server does. */
function readMode({ mode, image = "" }: SetFlags): string {
  const { mode: chosen } = choice("mode", mode, agentModes);
  return chosen ?? modeByForm(image) ?? "clone";
}

function readResources({ cpu, memory }: SetFlags): object {
  const amounts = { ...quantity("cpu", cpu), ...quantity("memory", memory) };
  if (Object.keys(amounts).length === 0) return {};
  return { resources: { requests: amounts, limits: amounts } };
}

function quantity<Name extends string>(name: Name, value: string | undefined): { [Key in Name]?: string } {
  if (value === undefined) return {};
  const amount = tryParseQuantity(value);
  if (amount && amount.nanos > 0n) return { [name]: value } as { [Key in Name]?: string };
  throw new Fault(
    "badRequest",
    `--${name} ${value}: write an amount such as ${name === "cpu" ? "2 or 500m" : "512Mi or 4Gi"}`,
  );
}

function choice<Name extends string, Word extends string>(
  name: Name,
  value: string | undefined,
  words: readonly Word[],
): { [Key in Name]?: Word } {
  if (value === undefined) return {};
  const word = words.find((each) => each === value);
  if (word) return { [name]: word } as { [Key in Name]?: Word };
  const flag = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new Fault("badRequest", `--${flag} ${value}: use ${words.join(", ")}`);
}

function text<Name extends string>(name: Name, value: string | undefined): { [Key in Name]?: string } {
  return value === undefined ? {} : ({ [name]: value } as { [Key in Name]?: string });
}

function port(value: string | undefined): { probePort?: number } {
  if (value === undefined) return {};
  const number = /^\d{1,5}$/.test(value) ? Number(value) : 0;
  if (number >= 1 && number <= 65_535) return { probePort: number };
  throw new Fault("badRequest", `--probe-port ${value} is not a port number (1 to 65535)`);
}

function readToolbox(value: string): { name: string; image: string; mode: "run" | "clone" } {
  const at = value.indexOf("=");
  const [name, image] = [value.slice(0, Math.max(at, 0)), value.slice(at + 1)];
  if (at < 1 || image === "") throw new Fault("badRequest", `--toolbox ${value}: write name=image`);
  return { name, image, mode: "run" };
}
