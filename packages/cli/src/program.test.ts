import assert from "node:assert/strict";
import { test } from "node:test";
import type { Command } from "commander";
import { buildProgram } from "./program.ts";

function* allCommands(command: Command): Generator<Command> {
  yield command;
  for (const each of command.commands) yield* allCommands(each);
}

const program = await buildProgram("cocoonctl");

test("the help of every option states its default", () => {
  const missing = [...allCommands(program)].flatMap((command) =>
    command.options
      .filter(({ mandatory, defaultValue, description }) => {
        const shown = defaultValue !== undefined && defaultValue !== true && defaultValue !== false;
        return !mandatory && !shown && !description.includes("(default");
      })
      .map(({ flags }) => `${command.name()} ${flags}`),
  );
  assert.deepEqual(missing, []);
});
