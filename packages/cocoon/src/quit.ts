/** Thrown by a command that has said everything: only the exit code is left. */
export class Quit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}
