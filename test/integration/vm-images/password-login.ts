/** SSH with a password, as a kubelet does that was given VK_SSH_PASSWORD. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runCommand, type CommandResult } from "@cocoon/testkit";

const settings = [
  "StrictHostKeyChecking=no",
  "UserKnownHostsFile=/dev/null",
  "LogLevel=ERROR",
  "PubkeyAuthentication=no",
  "NumberOfPasswordPrompts=1",
];

export interface GuestPort {
  readonly hostAddress: string;
  readonly hostPort: number;
}

/** Logs in as root and runs `hostname`; returns how that ended. */
export async function prepareLogin(
  directory: string,
  { hostAddress, hostPort }: GuestPort,
): Promise<(password: string) => Promise<CommandResult>> {
  const askPass = join(directory, "ask-pass");
  await writeFile(askPass, '#!/bin/sh\necho "$TEST_PASSWORD"\n', { mode: 0o700 });
  const at = ["-p", String(hostPort), `root@${hostAddress}`];
  const words = [...at, ...settings.flatMap((each) => ["-o", each]), "hostname"];
  return (password) =>
    runCommand("ssh", words, {
      env: { SSH_ASKPASS: askPass, SSH_ASKPASS_REQUIRE: "force", TEST_PASSWORD: password },
    });
}
