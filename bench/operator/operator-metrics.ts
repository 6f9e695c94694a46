/** What the operator says about itself: requests by kind, CPU time, memory. */
export interface Numbers {
  readonly writes: number;
  /** By verb, resource and answer. */
  readonly kinds: Readonly<Record<string, number>>;
  readonly reads: number;
  readonly conflicts: number;
  readonly events: number;
  readonly cpuSeconds: number;
  readonly residentMB: number;
}

interface Sample {
  readonly labels: Readonly<Record<string, string | undefined>>;
  readonly value: number;
}

const isWrite = (verb = "") => ["create", "update", "patch", "delete"].includes(verb);

export async function readNumbers(port: number, signal: AbortSignal): Promise<Numbers> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`, { signal })).text();
  const requests = [...text.matchAll(/^kube_client_requests_total\{(.*)\} (\d+)$/gm)].map(
    ([, labels = "", value]): Sample => ({
      labels: Object.fromEntries(
        [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = "", each = ""]) => [key, each]),
      ),
      value: Number(value),
    }),
  );
  const sum = (test: (labels: Sample["labels"]) => boolean) =>
    requests.filter(({ labels }) => test(labels)).reduce((total, { value }) => total + value, 0);
  const single = (name: string) => Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1] ?? Number.NaN);
  return {
    writes: sum(({ verb, resource }) => isWrite(verb) && resource !== "events"),
    kinds: Object.fromEntries(
      requests.filter(({ labels }) => isWrite(labels["verb"])).map((each) => [formatKind(each), each.value]),
    ),
    events: sum(({ verb, resource }) => isWrite(verb) && resource === "events"),
    reads: sum(({ verb }) => verb === "get" || verb === "list"),
    conflicts: sum(({ code }) => code === "409"),
    cpuSeconds: single("process_cpu_seconds_total"),
    residentMB: single("process_resident_memory_bytes") / 1e6,
  };
}

function formatKind({ labels }: Sample): string {
  const { verb, resource, subresource, code } = labels;
  return `${verb} ${resource}${subresource ? `/${subresource}` : ""} ${code}`;
}
