/** Lines of a decision table, each asked over HTTPS: the answer, and the one sample that counts it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Border, Response } from "./border.ts";

export interface Row {
  readonly name: string;
  readonly fields: object;
  readonly allowed: boolean;
  readonly result: string;
  readonly reason: string;
  readonly message?: RegExp;
  readonly check?: (response: Response) => void;
}

export function table(
  path: string,
  handler: string,
  { border, rows }: { border: () => Border; rows: readonly Row[] },
): void {
  for (const row of rows)
    test(row.name, async () => {
      const { result, reason } = row;
      const before = await border().counted(handler, result, reason);
      const response = await border().ask(path, row.fields);
      assert.equal(response.allowed, row.allowed, response.status?.message ?? "");
      assert.equal(await border().counted(handler, result, reason), before + 1, `${result}/${reason}`);
      if (row.message) assert.match(response.status?.message ?? "", row.message);
      if (!row.allowed && result === "deny") assert.ok(response.status?.reason);
      row.check?.(response);
    });
}
