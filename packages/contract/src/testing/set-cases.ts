/** Sets as a whole that are accepted and refused, on creation and on update. */
import { accepts, agent, refuses, toolbox, type SchemaCase } from "./schema-case.ts";

const release = "hibernatePolicy=release requires agent.replicas=0 and no toolboxes";
const immutable = "snapshotCompatibilityClass is immutable once set";
const classed = (snapshotCompatibilityClass: string) => agent({}, { snapshotCompatibilityClass });

export const setCases: readonly SchemaCase[] = [
  ...["always", "main-only", "never"].map((snapshotPolicy) =>
    accepts(`snapshotPolicy ${snapshotPolicy}`, agent({}, { snapshotPolicy })),
  ),
  refuses(
    "unknown snapshotPolicy",
    agent({}, { snapshotPolicy: "often" }),
    "spec.snapshotPolicy: Unsupported value",
  ),
  refuses(
    "empty snapshotPolicy",
    agent({}, { snapshotPolicy: "" }),
    "spec.snapshotPolicy: Unsupported value",
  ),
  accepts("suspended from the start", agent({}, { suspend: true })),
  refuses("suspend as text", agent({}, { suspend: "yes" }), "spec.suspend", "boolean"),

  accepts("release for a main agent alone", agent({}, { hibernatePolicy: "release" })),
  accepts(
    "release with empty list of toolboxes",
    agent({ replicas: 0 }, { hibernatePolicy: "release", toolboxes: [] }),
  ),
  refuses(
    "unknown hibernatePolicy",
    agent({}, { hibernatePolicy: "relase" }),
    "spec.hibernatePolicy: Unsupported value",
  ),
  refuses("release with sub-agents", agent({ replicas: 1 }, { hibernatePolicy: "release" }), release),
  refuses("release with a toolbox", toolbox({}, { hibernatePolicy: "release" }), release),
  accepts("retain to release", agent({}, { hibernatePolicy: "release" }), { from: agent({}) }),
  {
    ...refuses("release, then scaled up", agent({ replicas: 2 }, { hibernatePolicy: "release" }), release),
    from: agent({}, { hibernatePolicy: "release" }),
  },

  accepts("a pool", agent({}, { nodePool: "dense" })),
  accepts("an empty pool", agent({}, { nodePool: "" })),
  refuses("a pool that is no label value", agent({}, { nodePool: "a b" }), "spec.nodePool"),
  refuses("a pool too long", agent({}, { nodePool: "p".repeat(64) }), "spec.nodePool: Too long"),
  accepts("a node", agent({}, { nodeName: "cocoon-n3.example" })),
  accepts("to another node", agent({}, { nodeName: "n2" }), { from: agent({}, { nodeName: "n1" }) }),

  accepts("a CPU class", classed("icelake-v2")),
  accepts("the empty CPU class", classed("")),
  refuses("a CPU class that is no label value", classed("-x"), "spec.snapshotCompatibilityClass"),
  refuses("a CPU class too long", classed("c".repeat(64)), "spec.snapshotCompatibilityClass: Too long"),
  accepts("a CPU class set later", classed("icelake"), { from: agent({}) }),
  accepts("a CPU class kept", classed("icelake"), { from: classed("icelake") }),
  { ...refuses("a CPU class changed", classed("rome"), immutable), from: classed("icelake") },
  { ...refuses("a CPU class removed", agent({}), immutable), from: classed("icelake") },
  { ...refuses("an empty CPU class filled", classed("rome"), immutable), from: classed("") },

  accepts("paused", agent({}, { paused: true })),
  refuses("paused as number", agent({}, { paused: 1 }), "spec.paused"),
  accepts("purge on deletion", agent({}, { deletionPolicy: "Purge" })),
  accepts("retain on deletion", agent({}, { deletionPolicy: "Retain" })),
  refuses(
    "unknown deletionPolicy",
    agent({}, { deletionPolicy: "Shred" }),
    "spec.deletionPolicy: Unsupported value",
  ),

  accepts(
    "a schedule",
    agent(
      {},
      {
        schedule: [
          { cron: "0 20 * * 1-5", timeZone: "Europe/Berlin", action: "Hibernate" },
          { cron: "@daily", action: "Wake" },
        ],
      },
    ),
  ),
  refuses(
    "a schedule without action",
    agent({}, { schedule: [{ cron: "@daily" }] }),
    "spec.schedule[0].action: Required value",
  ),
  refuses(
    "a schedule of four fields",
    agent({}, { schedule: [{ cron: "0 1 * *", action: "Wake" }] }),
    "spec.schedule[0].cron",
  ),
  refuses(
    "a schedule for another action",
    agent({}, { schedule: [{ cron: "@daily", action: "Reboot" }] }),
    "spec.schedule[0].action",
  ),
  refuses(
    "a malformed time zone",
    agent({}, { schedule: [{ cron: "@daily", action: "Wake", timeZone: "Mars Time" }] }),
    "spec.schedule[0].timeZone",
  ),
  accepts("sleep when idle", agent({}, { idle: { after: "1h30m" } })),
  refuses("idle without time", agent({}, { idle: {} }), "spec.idle.after: Required value"),
  refuses(
    "idle for less than a minute",
    agent({}, { idle: { after: "30s" } }),
    "spec.idle.after",
    "must be at least 1m",
  ),
  refuses("idle for days", agent({}, { idle: { after: "2d" } }), "spec.idle.after"),
  accepts("a life of three days", agent({}, { ttl: "72h" })),
  refuses("a negative life", agent({}, { ttl: "-1h" }), "spec.ttl"),
  refuses("a life as number", agent({}, { ttl: 3600 }), "spec.ttl"),
  accepts("an end", agent({}, { expire: { at: "2026-01-01T00:00:00Z", action: "Suspend" } })),
  refuses(
    "an end that is no time",
    agent({}, { expire: { at: "soon", action: "Delete" } }),
    "spec.expire.at",
  ),
  refuses(
    "an end without action",
    agent({}, { expire: { at: "2026-01-01T00:00:00Z" } }),
    "spec.expire.action: Required value",
  ),
  accepts("a fork of another set", agent({ forkFrom: { set: "b" } })),
  accepts("retention", agent({}, { retention: { after: "720h", keep: 3 } })),
  refuses("negative retention", agent({}, { retention: { keep: -1 } }), "spec.retention.keep"),
  accepts("a warm pool", agent({}, { warmPool: { size: 2 } })),
  refuses("a warm pool too large", agent({}, { warmPool: { size: 65 } }), "spec.warmPool.size"),
  refuses("a warm pool without size", agent({}, { warmPool: {} }), "spec.warmPool.size: Required value"),
  accepts("a rollout", agent({}, { rollout: { strategy: "OnDelete", maxUnavailable: 2 } })),
  refuses(
    "a rollout that never moves",
    agent({}, { rollout: { maxUnavailable: 0 } }),
    "spec.rollout.maxUnavailable",
  ),

  refuses("no spec at all", undefined, "spec is required"),
  { ...refuses("the spec removed", undefined, "spec is required"), from: agent({}) },
  accepts("the longest name", agent({}), { objectName: "n".repeat(63) }),
  {
    ...refuses("a name too long for a label", agent({}), "metadata.name must be no more than 63 characters"),
    objectName: "n".repeat(64),
  },
  accepts("a name with dots", agent({}), { objectName: "atlas.lab.example" }),
];
