import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { count } from "@cocoon/testkit";
import fc from "fast-check";
import { buildIndex } from "./build-index.ts";
import type { SnapshotIndex } from "./index-codec.ts";
import {
  planReuse,
  type BaseSnapshot,
  type Location,
  type ReusePlan,
  type WantedChunk,
} from "./reuse-plan.ts";

const kib64 = 65_536;
const id = (number: number): string => number.toString(16).padStart(64, "0");

/** A machine whose memory holds these contents, chunk by chunk; 0 is zero. */
function makeWanted(memory: readonly number[]): WantedChunk[] {
  const seen = new Map<number, WantedChunk>();
  for (const [position, content] of memory.entries())
    if (content !== 0 && !seen.has(content))
      seen.set(content, { id: id(content), rawLength: kib64, file: "memory", position });
  return [...seen.values()];
}

let serial = 0;

/** What a push would store: reused and new chunks, deltas where the plan offers a base and `alike` says so. */
function store(
  memory: readonly number[],
  plan: ReusePlan,
  { perPack = 4, alike = (_content: string): boolean => true } = {},
): SnapshotIndex {
  const locations = new Map<string, Location>(plan.reused);
  const packs = plan.packs.map(({ digest, size }) => ({ digest, size }));
  for (let at = 0; at < plan.fresh.length; at += perPack) {
    serial += 1;
    const pack = `sha256:${serial.toString(16).padStart(64, "f")}`;
    let offset = 0;
    for (const chunk of plan.fresh.slice(at, at + perPack)) {
      const delta = chunk.base && alike(chunk.id);
      const length = delta ? 1000 : 30_000;
      const place = { id: chunk.id, pack, offset, length, rawLength: kib64 };
      locations.set(
        chunk.id,
        delta && chunk.base
          ? { ...place, encoding: "delta", base: chunk.base }
          : { ...place, encoding: "zstd" },
      );
      offset += length;
    }
    packs.push({ digest: pack, size: offset });
  }
  const ids = memory.map((content) => (content === 0 ? undefined : id(content)));
  const used = new Set([...locations.values()].flatMap((each) => [each.pack, each.base?.pack]));
  return buildIndex({
    chunkBytes: kib64,
    packs: packs.filter((each) => used.has(each.digest)),
    locations,
    files: [{ name: "memory", size: memory.length * kib64, ids }],
  });
}

const base = (index: SnapshotIndex, repository = "vm"): BaseSnapshot => ({ index, repository });

function generations(
  memories: readonly (readonly number[])[],
  alike = (_content: string): boolean => true,
): SnapshotIndex[] {
  const indexes: SnapshotIndex[] = [];
  for (const memory of memories) {
    const plan = planReuse(
      makeWanted(memory),
      indexes.slice(-1).map((each) => base(each)),
      { smallPackBytes: 0 },
    );
    indexes.push(store(memory, plan, { alike }));
  }
  return indexes;
}

describe("what a snapshot takes over", () => {
  it("everything, when nothing changed", () => {
    const memory = [1, 2, 0, 3, 4, 5, 6, 7, 8];
    const [first] = generations([memory]);
    assert.ok(first);
    const plan = planReuse(makeWanted(memory), [base(first)], { smallPackBytes: 0 });
    assert.deepEqual([plan.fresh, plan.packs.length, plan.reused.size], [[], 2, 8]);
  });

  it("a changed chunk is encoded against what was at its place", () => {
    const [first] = generations([[1, 2, 3, 4]]);
    assert.ok(first);
    const plan = planReuse(makeWanted([1, 2, 9, 4]), [base(first)], { smallPackBytes: 0 });
    assert.deepEqual(
      plan.fresh.map((each) => [each.id, each.base?.id]),
      [[id(9), id(3)]],
    );
  });

  it("a delta never stands on a delta, however often a place changes", () => {
    const indexes = generations([
      [1, 2, 3, 4],
      [1, 2, 9, 4],
      [1, 2, 10, 4],
      [1, 2, 11, 4],
    ]);
    for (const { chunks } of indexes)
      for (const chunk of chunks)
        assert.ok(chunk.base === undefined || chunks[chunk.base]?.base === undefined);
    const last = indexes.at(-1);
    assert.deepEqual(last?.chunks.find((each) => each.base !== undefined)?.base, 2);
  });

  it("a pack that is mostly dead is left behind, and what lives in it is sent again", () => {
    const [first] = generations([[1, 2, 3, 4, 5, 6, 7, 8]]);
    assert.ok(first);
    const plan = planReuse(makeWanted([1, 2, 3, 4, 5]), [base(first)], { smallPackBytes: 0 });
    assert.equal(plan.packs.length, 1);
    assert.deepEqual(
      plan.fresh.map((each) => each.id),
      [id(5)],
    );
  });

  it("a crowd of small packs is left behind", () => {
    const memory = Array.from({ length: 12 }, (_, at) => at + 1);
    const plan = planReuse(makeWanted(memory), []);
    const index = store(memory, plan, { perPack: 1 });
    const small = { smallPackBytes: 1e6, smallPacks: 11 };
    assert.equal(planReuse(makeWanted(memory), [base(index)], small).fresh.length, 12);
    assert.equal(planReuse(makeWanted(memory), [base(index)], { ...small, smallPacks: 12 }).fresh.length, 0);
  });

  it("packs that are lost are planned without, with every delta that stood on them", () => {
    const [first, second] = generations([
      [1, 2, 3, 4],
      [1, 2, 9, 4],
    ]);
    assert.ok(first && second);
    const lost = new Set([first.packs[0]?.digest ?? ""]);
    const plan = planReuse(makeWanted([1, 2, 9, 4]), [base(second)], { lost, smallPackBytes: 0 });
    assert.deepEqual(plan.fresh.map((each) => each.id).sort(), [1, 2, 4, 9].map(id));
    assert.ok(plan.fresh.every((each) => each.base === undefined));
  });

  it("all repositories that have a pack are known", () => {
    const [first] = generations([[1, 2]]);
    assert.ok(first);
    const plan = planReuse(makeWanted([1, 2]), [base(first, "golden"), base(first, "vm")], {
      smallPackBytes: 0,
    });
    assert.deepEqual(
      plan.packs.map((each) => [...each.repositories]),
      [["golden", "vm"]],
    );
  });

  it("any sequence of snapshots keeps every promise", () => {
    const memory = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(
        fc.array(memory, { minLength: 1, maxLength: 8 }),
        fc.func(fc.boolean()),
        (memories, alike) => {
          for (const [number, index] of generations(memories, alike).entries()) {
            const ids = index.files[0]?.map ?? new Uint32Array();
            assert.deepEqual(
              [...ids].map((reference) =>
                reference === 0 ? 0 : Number.parseInt(index.chunks[reference - 1]?.id ?? "", 16),
              ),
              memories[number],
              "the memory is all there",
            );
            const live = new Map<number, number>();
            for (const chunk of index.chunks) {
              live.set(chunk.pack, (live.get(chunk.pack) ?? 0) + chunk.length);
              assert.ok(chunk.base === undefined || index.chunks[chunk.base]?.base === undefined);
            }
            assert.equal(live.size, index.packs.length, "every listed pack is needed");
          }
        },
      ),
      { numRuns: count({ small: 200, full: 5000 }) },
    );
  });

  it("the same question has the same answer", () => {
    const memory = fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(memory, memory, (before, after) => {
        const [first] = generations([before]);
        assert.ok(first);
        const ask = (): ReusePlan => planReuse(makeWanted(after), [base(first)]);
        assert.deepEqual(ask(), ask());
      }),
    );
  });
});
