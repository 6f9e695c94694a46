/** Builds templates: a machine of the base is started, the steps run in it, and it is saved as a snapshot that sandboxes start from. */
import { getErrorMessage, sleep, type Abortable, type Logger } from "@cocoon/core";
import type { Guest } from "../guest/guest.ts";
import { parseRecord } from "../guest/protocol.ts";
import { ApiError } from "../http/answer.ts";
import { chooseMachine, type ChosenMachine, type MachineSources } from "../sandboxes/choose-machine.ts";
import type { Guests } from "../sandboxes/guests.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import { buildSetSpec, type Template } from "../sandboxes/templates.ts";
import type { Tenant } from "../tenants/tenant.ts";
import { writeCopyScript } from "./copy-script.ts";
import { quoteShell } from "./quote-shell.ts";
import type { BuildFiles } from "./build-files.ts";
import { BuildLog } from "./build-log.ts";
import type { BuildRecord, BuildRecords } from "./build-records.ts";
import { planSteps, type BuildBody, type BuildPlan, type BuildStep } from "./build-steps.ts";

export interface TemplateBuilderOptions extends MachineSources {
  readonly records: BuildRecords;
  readonly files: BuildFiles;
  readonly guests: Guests;
  readonly log: Logger;
}

/** What the SDK starts from when its user names nothing. */
const defaultImage = /^(?:docker\.io\/)?e2bdev\/(?:base|code-interpreter)(?::.*)?$/;
const readyMs = 300_000;
const readyPollMs = 2_000;

class StepFailed extends Error {
  readonly step: string;
  constructor(step: string, message: string) {
    super(message);
    this.step = step;
  }
}

export class TemplateBuilder {
  readonly #options: TemplateBuilderOptions;

  constructor(options: TemplateBuilderOptions) {
    this.#options = options;
  }

  /** Checks the request, and builds in the background. */
  start(tenant: Tenant, record: BuildRecord, body: BuildBody): void {
    const plan = planSteps(body);
    const base = this.#chooseBase(tenant, record, body);
    void this.#build(tenant, { record, body, plan, base });
  }

  #chooseBase(
    { namespace }: Tenant,
    record: BuildRecord,
    { fromImage, fromTemplate }: BuildBody,
  ): ChosenMachine {
    if (fromTemplate) return chooseMachine(this.#options, namespace, fromTemplate);
    if (!fromImage || defaultImage.test(fromImage)) return chooseMachine(this.#options, namespace, "base");
    const { template } = chooseMachine(this.#options, namespace, "base");
    const own: Template = {
      ...template,
      name: record.alias,
      image: fromImage,
      mode: "run",
      ...(record.cpus ? { cpus: record.cpus } : {}),
      ...(record.memoryMiB ? { memoryMiB: record.memoryMiB } : {}),
    };
    return { template: own, setSpec: buildSetSpec(own) };
  }

  async #build(tenant: Tenant, job: Job): Promise<void> {
    const { record, plan, base } = job;
    const { snapshots, records, log } = this.#options;
    await using output = new BuildLog(records, record);
    try {
      output.add(`starting a machine of ${base.template.image}`, { step: "base" });
      const { env, user, directory } = base.defaults ?? { env: {} };
      await snapshots.build(
        tenant,
        {
          name: record.templateId,
          alias: record.alias,
          tags: record.tags,
          build: record.buildId,
          template: base.template,
          setSpec: base.setSpec,
          defaults: {
            env: { ...env, ...plan.env },
            user: plan.user || user,
            directory: plan.directory || directory,
          },
          work: (machine, options) => this.#work(machine, { ...job, output }, options),
        },
        { signal: AbortSignal.timeout(3_600_000) },
      );
      output.add("saved", { step: "finalize" });
      await output.end({ status: "ready" });
    } catch (error) {
      const message = getErrorMessage(error);
      log.info({ template: record.alias, error: message }, "template was not built");
      output.add(message, { level: "error" });
      const step = error instanceof StepFailed ? error.step : "base";
      await output.end({ status: "error", reason: { message, step } });
    }
  }

  async #work(machine: Sandbox, { plan, body, output }: Job & Output, options: Abortable): Promise<void> {
    const { guests } = this.#options;
    await guests.prepare(machine, options);
    const guest = guests.open(machine);
    for (const step of plan.steps) {
      const label = String(step.number);
      output.add(step.title.slice(0, 200), { step: label });
      const command =
        step.action.kind === "run"
          ? step.action.command
          : await this.#bring(guest, { machine, step }, options);
      const run = { ...step, command, label, output };
      const code = await runCommand(guest, run, options);
      if (code !== 0)
        throw new StepFailed(
          label,
          `step ${label} (${step.title.slice(0, 200)}) ended with exit status ${code}`,
        );
    }
    await finish(guest, { plan, body, output }, options);
  }

  /** Puts the archive of a COPY step into the guest; the command that unpacks it. */
  async #bring(
    guest: Guest,
    { machine, step }: { readonly machine: Sandbox; readonly step: BuildStep },
    options: Abortable,
  ): Promise<string> {
    const { action, directory } = step;
    if (action.kind !== "copy") throw new ApiError(500, "no COPY step");
    const { files } = this.#options;
    const content = await files.tryOpen({ namespace: machine.namespace, hash: action.hash }, options);
    if (!content)
      throw new StepFailed(
        String(step.number),
        "the files of this step are not here; build again with forceUpload",
      );
    const archive = `/tmp/.cocoon-copy-${action.hash.slice(0, 16)}`;
    await guest.call({ op: "write", path: archive, user: "root", metadata: [] }, options, content);
    return writeCopyScript({ ...action, archive, directory });
  }
}

interface Job {
  readonly record: BuildRecord;
  readonly body: BuildBody;
  readonly plan: BuildPlan;
  readonly base: ChosenMachine;
}

interface Output {
  readonly output: BuildLog;
}

interface Command extends Output, Pick<BuildStep, "user" | "directory" | "env"> {
  readonly command: string;
  readonly label: string;
}

/** Its exit status; 128 and more for a signal. */
async function runCommand(guest: Guest, run: Command, options: Abortable): Promise<number> {
  const script = run.directory ? `cd ${quoteShell(run.directory)} || exit\n${run.command}` : run.command;
  const request = {
    op: "start",
    argv: ["/bin/bash", "-l", "-c", script],
    env: Object.entries(run.env).map(([name, value]) => `${name}=${value}`),
    cwd: "",
    user: run.user,
    stdin: false,
  };
  let code = 1;
  for await (const frame of guest.stream(request, options)) {
    if (frame.type === "O" || frame.type === "E") {
      const level = frame.type === "E" ? "warn" : "info";
      run.output.add(frame.payload.toString("utf8"), { step: run.label, level });
    } else if (frame.type === "J") {
      const { code: exit, signal } = parseRecord(frame);
      if (typeof signal === "number" && signal > 0) code = 128 + signal;
      else if (typeof exit === "number") code = exit;
    }
  }
  return code;
}

/** The start command goes on in the snapshot, once the ready command succeeds. */
async function finish(
  guest: Guest,
  { plan, body, output }: Pick<Job, "plan" | "body"> & Output,
  options: Abortable,
): Promise<void> {
  const { user, directory, env } = plan;
  const run = { user: user || "user", directory, env, output, label: "finalize" };
  if (body.startCmd) {
    const command = `nohup setsid /bin/bash -l -c ${quoteShell(body.startCmd)} > /tmp/.start.log 2>&1 &`;
    await runCommand(guest, { ...run, command }, options);
  }
  if (!body.readyCmd) return;
  const until = performance.now() + readyMs;
  while ((await runCommand(guest, { ...run, command: body.readyCmd }, options)) !== 0) {
    if (performance.now() > until)
      throw new StepFailed("finalize", `the ready command did not succeed in ${readyMs / 1000} s`);
    if (!(await sleep(readyPollMs, options))) options.signal.throwIfAborted();
  }
}
