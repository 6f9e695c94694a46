/** The steps of a template as the SDK's builder sends them. Pure: what to run, and what later sandboxes inherit. */
import * as z from "zod";
import { ApiError } from "../http/answer.ts";
import { quoteShell } from "./quote-shell.ts";

const stepSchema = z.object({
  type: z.string(),
  args: z.array(z.string()).default([]),
  filesHash: z.string().nullish(),
});

export const buildBody = z.object({
  fromImage: z.string().max(500).nullish(),
  fromTemplate: z.string().max(200).nullish(),
  fromImageRegistry: z.unknown().optional(),
  startCmd: z.string().max(100_000).nullish(),
  readyCmd: z.string().max(100_000).nullish(),
  steps: z.array(stepSchema).max(1_000).default([]),
  force: z.boolean().nullish(),
});
export type BuildBody = z.output<typeof buildBody>;

interface RunStep {
  readonly kind: "run";
  readonly command: string;
}

export interface CopyStep {
  readonly kind: "copy";
  readonly hash: string;
  readonly source: string;
  readonly destination: string;
  /** Owner of what is copied, and its mode in octal digits; "" as it is. */
  readonly owner: string;
  readonly mode: string;
}

export interface BuildStep {
  /** Its number, from 1, as the SDK counts. */
  readonly number: number;
  readonly title: string;
  readonly action: RunStep | CopyStep;
  readonly user: string;
  readonly directory: string;
  readonly env: Readonly<Record<string, string>>;
}

export interface BuildPlan {
  readonly steps: readonly BuildStep[];
  /** What sandboxes of the template have. */
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly directory: string;
}

/** Of sandboxes whose template names none. */
const defaultUser = "user";
const hashPattern = /^[0-9a-f]{64}$/;
const userPattern = /^[A-Za-z_][A-Za-z0-9_.-]{0,31}$/;

/** What the steps so far have set. */
interface Settings {
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly directory: string;
}

interface Read {
  readonly settings?: Partial<Settings>;
  readonly action?: BuildStep["action"];
  /** Who does it and where, if that is not in the settings. */
  readonly user?: string;
  readonly directory?: string;
}

type Refuse = (why: string) => ApiError;
type Step = z.output<typeof stepSchema>;

const readers: Readonly<Record<string, (step: Step, settings: Settings, refuse: Refuse) => Read>> = {
  RUN: ({ args: [command = "", user = ""] }, _settings, refuse) => {
    if (command === "") throw refuse("the command is missing");
    return { action: { kind: "run", command }, user: checkUser(user, refuse) };
  },
  COPY: ({ args: [source = "", destination = "", owner = "", mode = ""], filesHash }, _settings, refuse) => {
    const hash = filesHash ?? "";
    if (!hashPattern.test(hash)) throw refuse("filesHash is no SHA-256");
    if (!/^[0-7]{0,4}$/.test(mode)) throw refuse(`"${mode}" is no mode`);
    const action = {
      kind: "copy",
      hash,
      source,
      destination,
      owner: checkUser(owner, refuse),
      mode,
    } as const;
    return { action, user: "root" };
  },
  ENV: ({ args }, { env }, refuse) => ({ settings: { env: { ...env, ...readPairs(args, refuse) } } }),
  WORKDIR: ({ args: [path = ""] }, { directory, user }, refuse) => {
    if (path === "") throw refuse("the directory is missing");
    const owner = user || defaultUser;
    const inside = path.startsWith("/") ? path : `${directory || `/home/${owner}`}/${path}`;
    const name = quoteShell(inside);
    const command = `test -d ${name} || { mkdir -p ${name} && chown ${owner} ${name}; }`;
    return {
      settings: { directory: inside },
      action: { kind: "run", command },
      user: "root",
      directory: "/",
    };
  },
  USER: ({ args: [name = ""] }, _settings, refuse) => ({ settings: { user: checkUser(name, refuse) } }),
};

/** Throws 400 naming the step. */
export function planSteps({ steps }: Pick<BuildBody, "steps">): BuildPlan {
  let settings: Settings = { env: {}, user: "", directory: "" };
  const planned: BuildStep[] = [];
  for (const [index, step] of steps.entries()) {
    const { type, args } = step;
    const refuse = (why: string) => new ApiError(400, `steps[${index}] ${type}: ${why}`);
    const reader = Object.hasOwn(readers, type) ? readers[type] : undefined;
    if (!reader) throw refuse("not offered; use RUN, COPY, ENV, WORKDIR and USER");
    const { action, user, directory, settings: changes } = reader(step, settings, refuse);
    settings = { ...settings, ...changes };
    if (!action) continue;
    const title = `${type} ${args.join(" ")}`;
    planned.push({
      ...settings,
      number: index + 1,
      title,
      action,
      user: user || settings.user || defaultUser,
      directory: directory ?? settings.directory,
    });
  }
  return { ...settings, steps: planned };
}

function checkUser(name: string, refuse: Refuse): string {
  if (name !== "" && !userPattern.test(name)) throw refuse(`"${name}" is no user name`);
  return name;
}

function readPairs(args: readonly string[], refuse: Refuse): Record<string, string> {
  if (args.length % 2 !== 0) throw refuse("a name has no value");
  const pairs: Record<string, string> = {};
  for (let index = 0; index < args.length; index += 2) {
    const name = args[index] ?? "";
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw refuse(`"${name}" is no name of a variable`);
    pairs[name] = args[index + 1] ?? "";
  }
  return pairs;
}
