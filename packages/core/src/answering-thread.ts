/** A worker thread that answers each message once, in any order; it keeps the program alive only while an answer is awaited. */
import { Worker } from "node:worker_threads";
import { Fault, toFault } from "./fault.ts";

export interface Numbered {
  readonly number: number;
}

/** A message before it gets its number; of each kind, if there are several. */
export type Unnumbered<Question> = Question extends Numbered ? Omit<Question, "number"> : never;

interface AnsweringThreadOptions {
  readonly name: string;
  /** Called once, after every waiting caller got its error; not when the thread was ended by `end`. */
  readonly onLost: () => void;
}

interface Waiting<Answer> {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (fault: Fault) => void;
}

export class AnsweringThread<Question extends Numbered, Answer extends Numbered> {
  readonly #worker: Worker;
  readonly #name: string;
  readonly #waiting = new Map<number, Waiting<Answer>>();
  #number = 0;
  #gone: Fault | undefined;

  constructor(program: URL, { name, onLost }: AnsweringThreadOptions) {
    this.#name = name;
    this.#worker = new Worker(program, { name });
    const lose = (fault: Fault) => {
      if (this.#leave(fault)) onLost();
    };
    this.#worker.on("message", (answer: Answer) => this.#answered(answer));
    this.#worker.on("error", (error) => lose(toFault(error, `a thread (${name}) failed`)));
    this.#worker.on("exit", () => lose(this.#ended()));
    this.#worker.unref();
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get isGone(): boolean {
    return this.#gone !== undefined;
  }

  /** Rejects when the thread is gone, or goes before it has answered. */
  ask(question: Unnumbered<Question>, transfer: readonly ArrayBuffer[] = []): Promise<Answer> {
    if (this.#gone) return Promise.reject(this.#gone);
    const number = (this.#number += 1);
    return new Promise((resolve, reject) => {
      this.#worker.postMessage({ ...question, number }, [...transfer]); // may throw: then no answer is awaited
      this.#waiting.set(number, { resolve, reject });
      this.#worker.ref();
    });
  }

  async end(): Promise<void> {
    const gone = this.#ended();
    this.#gone ??= gone; // takes no more questions
    await this.#worker.terminate();
    this.#leave(gone);
  }

  #answered(answer: Answer): void {
    const waiting = this.#waiting.get(answer.number);
    this.#waiting.delete(answer.number);
    if (this.#waiting.size === 0) this.#worker.unref();
    waiting?.resolve(answer);
  }

  #leave(fault: Fault): boolean {
    const isNews = this.#gone === undefined;
    this.#gone ??= fault;
    for (const { reject } of this.#waiting.values()) reject(fault);
    this.#waiting.clear();
    return isNews;
  }

  #ended(): Fault {
    return new Fault("unavailable", `a thread (${this.#name}) ended`);
  }
}
