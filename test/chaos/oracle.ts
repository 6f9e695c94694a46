/**
 * The oracle inside a guest. On disk: a token and data with their checksum. In memory: the same token in a tmpfs and a
 * process that counts. The boot id distinguishes a machine that continued from one that booted again.
 */
export interface GuestState {
  readonly hostname: string;
  readonly bootId: string;
  readonly diskToken: string;
  readonly diskIntact: boolean;
  /** Empty after a boot. */
  readonly memoryToken: string;
  /** What the counting process has reached; 0 when it does not run. */
  readonly counter: number;
}

const directory = "/root/oracle";
const memory = "/run/oracle";

/** A script that writes a new token. Disk content is flushed before it ends. */
export function writeTokenScript(token: string): string {
  return [
    "set -e",
    `mkdir -p ${directory} ${memory}`,
    `head -c 65536 /dev/urandom > ${directory}/data`,
    `echo ${token} > ${directory}/token`,
    `cat ${directory}/data ${directory}/token | sha256sum > ${directory}/sum`,
    "sync",
    `echo ${token} > ${memory}/token`,
    // The process holds its number in its own memory; the file only shows it.
    `if ! kill -0 "$(cat ${memory}/pid 2>/dev/null || echo 999999)" 2>/dev/null; then`,
    `setsid sh -c 'echo $$ > ${memory}/pid; n=0; while :; do n=$((n+1)); echo $n > ${memory}/counter; sleep 1; done' </dev/null >/dev/null 2>&1 &`,
    `while [ ! -s ${memory}/counter ]; do sleep 0.1; done`,
    "fi",
    readStateScript,
  ].join("\n");
}

export const readStateScript = [
  'echo "hostname=$(hostname)"',
  'echo "boot=$(cat /proc/sys/kernel/random/boot_id)"',
  `echo "disk=$(cat ${directory}/token 2>/dev/null)"`,
  `echo "sum=$(cat ${directory}/sum 2>/dev/null)"`,
  `echo "computed=$(cat ${directory}/data ${directory}/token 2>/dev/null | sha256sum)"`,
  `echo "memory=$(cat ${memory}/token 2>/dev/null)"`,
  `if kill -0 "$(cat ${memory}/pid 2>/dev/null || echo 999999)" 2>/dev/null; then echo "counter=$(cat ${memory}/counter)"; fi`,
].join("\n");

export function parseGuestState(text: string): GuestState {
  const fields = new Map(
    text.split("\n").flatMap((line) => {
      const at = line.indexOf("=");
      return at < 0 ? [] : [[line.slice(0, at), line.slice(at + 1).trim()] as const];
    }),
  );
  const read = (name: string) => fields.get(name) ?? "";
  return {
    hostname: read("hostname"),
    bootId: read("boot"),
    diskToken: read("disk"),
    diskIntact: read("sum") !== "" && read("sum") === read("computed"),
    memoryToken: read("memory"),
    counter: Number(read("counter") || "0"),
  };
}
