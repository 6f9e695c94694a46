// Programs that do not come from npm: which Debian packages bring them, for which commands, and why.
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** Whether a program of that name is on PATH. */
function onPath(program) {
  return (process.env.PATH ?? "")
    .split(delimiter)
    .concat(["/usr/sbin", "/sbin"])
    .some((directory) => existsSync(join(directory, program)));
}

const running = ["up", "test", "test:full", "test:int", "test:e2e", "bench"];

export const requirements = [
  {
    packages: ["git"],
    present: () => onPath("git"),
    why: "the revision that --version prints",
    for: ["test", "test:full", "build"],
  },
  {
    packages: ["ca-certificates", "tar"],
    present: () => onPath("tar") && existsSync("/etc/ssl/certs"),
    why: "downloading and unpacking the control plane",
    for: running,
  },
  {
    packages: ["util-linux"],
    present: () => onPath("setpriv"),
    why: "setpriv, so that what a test starts ends with the test",
    for: ["test", "test:full", "test:int", "test:e2e", "bench"],
  },
];
