/**
 * Where the time of a machine's hibernation or wake goes: one trace each, a root span from its first step to its last and a
 * span per step below it. Without an exporter the same is logged as one line at the end.
 */
import {
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Span,
  type Tracer,
} from "@opentelemetry/api";
import { getErrorMessage, type Logger } from "@cocoon/core";
import type { Desired } from "../provider/observed.ts";
import type { Step } from "../provider/step.ts";

interface Transition {
  readonly name: string;
  /** Steps that it begins with, whichever comes first. */
  readonly starts: ReadonlySet<string>;
  /** It is over when one of these was done. */
  readonly ends: ReadonlySet<string>;
}

const transitions: Readonly<Record<Desired, Transition>> = {
  asleep: {
    name: "hibernate",
    starts: new Set(["announce hibernating", "pushAhead", "save", "push"]),
    ends: new Set(["showAsleep"]),
  },
  running: {
    name: "wake",
    starts: new Set(["record", "claim", "restore", "wakeAgain"]),
    ends: new Set(["clearDigest", "reportSnapshot"]),
  },
  gone: {
    name: "delete",
    starts: new Set(["pushAhead", "save", "push", "pushLatest"]),
    ends: new Set(["settled", "showAsleep"]),
  },
};

interface Active {
  readonly transition: Transition;
  readonly root: Span;
  readonly context: Context;
  readonly began: number;
  /** Seconds per step. */
  readonly phases: Map<string, number>;
}

export interface TracedStep {
  readonly step: Step;
  readonly desired: Desired;
  /** Of the machine. */
  readonly facts: Attributes;
  readonly log: Logger;
}

export class MachineTrace {
  readonly #tracer: Tracer;
  #active: Active | undefined;
  #current: Span | undefined;

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
  }

  /** Adds to the step that runs now. */
  note(attributes: Attributes): void {
    this.#current?.setAttributes(attributes);
  }

  /** Runs the step as a part of the transition that it belongs to, if any. */
  async run<T>(traced: TracedStep, work: () => Promise<T>): Promise<T> {
    const name = nameStep(traced.step);
    const active = this.#follow(traced, name);
    if (!active) return work();
    const { transition, context, phases } = active;
    const span = this.#tracer.startSpan(name, {}, context);
    const began = performance.now();
    let isOver = false;
    this.#current = span;
    try {
      const done = await work();
      isOver = transition.ends.has(name);
      return done;
    } catch (error) {
      span.recordException(error instanceof Error ? error : getErrorMessage(error));
      span.setStatus({ code: SpanStatusCode.ERROR, message: getErrorMessage(error) });
      throw error;
    } finally {
      phases.set(name, (phases.get(name) ?? 0) + (performance.now() - began) / 1000);
      span.end();
      this.#current = undefined;
      if (isOver) this.#end(traced.log);
    }
  }

  /** The transition that the step belongs to. One whose end is not desired any more is over. */
  #follow({ desired, facts, log }: TracedStep, name: string): Active | undefined {
    const transition = transitions[desired];
    if (this.#active && this.#active.transition !== transition) {
      this.#active.root.setAttribute("cancelled", true);
      this.#end(log);
    }
    if (!this.#active && transition.starts.has(name)) {
      const root = this.#tracer.startSpan(transition.name, { attributes: facts, root: true });
      const context = trace.setSpan(ROOT_CONTEXT, root);
      this.#active = { transition, root, context, began: performance.now(), phases: new Map() };
    }
    return this.#active;
  }

  #end(log: Logger): void {
    if (!this.#active) return;
    const { transition, root, began, phases } = this.#active;
    root.end();
    this.#active = undefined;
    const round = (seconds: number) => Math.round(seconds * 1000) / 1000;
    const slow = [...phases].map(([name, seconds]) => [name, round(seconds)] as const);
    const seconds = round((performance.now() - began) / 1000);
    const { traceId } = root.spanContext();
    log.info(
      { transition: transition.name, seconds, phases: Object.fromEntries(slow), trace: traceId },
      "transition ended",
    );
  }
}

function nameStep(step: Step): string {
  return step.kind === "announce" ? `announce ${step.state}` : step.kind;
}
