#!/usr/bin/env node
// kubectl looks for kubectl_complete-cocoon to complete `kubectl cocoon …`: the words typed so far come as arguments, candidates go
// out one per line, and a last line with a number tells the shell what else to offer (4: no file names).
process.argv.splice(2, 0, "__complete", "--");
process.once("exit", () => process.stdout.write(":4\n"));
await import("./cocoonctl.mjs");
