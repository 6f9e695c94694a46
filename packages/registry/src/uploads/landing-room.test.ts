import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { LandingRoom, LandingRooms, type SealedSlot } from "./landing-room.ts";

/** What may happen to a room: bytes come, they are handed on, the oldest of those is done with. */
const steps = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant("land" as const), bytes: fc.integer({ min: 1, max: 600_000 }) }),
    fc.record({ kind: fc.constant("seal" as const) }),
    fc.record({ kind: fc.constant("free" as const) }),
  ),
  { maxLength: 60 },
);

test("what has landed stays as it came until it is given free, whatever comes meanwhile", () => {
  fc.assert(
    fc.property(steps, (all) => {
      const room = new LandingRoom();
      let mark = 0;
      let open: Landed[] = [];
      const sealed: { readonly slot: SealedSlot; readonly pieces: readonly Landed[] }[] = [];
      for (const step of all) {
        if (step.kind === "land") {
          const place = room.place(step.bytes);
          if (!place) continue; // full: somebody else has to take it
          assert.ok(place.length <= step.bytes);
          mark = (mark + 1) % 256;
          place.fill(mark);
          open.push({ view: room.filled(place.length), mark });
        } else if (step.kind === "seal") {
          const slot = room.seal();
          assert.equal(slot === undefined, open.length === 0);
          if (slot) sealed.push({ slot, pieces: open });
          open = [];
        } else {
          const oldest = sealed.shift();
          if (oldest) room.free(oldest.slot);
        }
        for (const { view, mark: of } of [...open, ...sealed.flatMap(({ pieces }) => pieces)])
          assert.ok(view.length > 0 && view[0] === of && view.at(-1) === of && view[view.length >> 1] === of);
      }
      for (const { slot } of sealed) room.free(slot);
      const last = room.seal();
      if (last) room.free(last);
      assert.ok(room.isEmpty && room.hasSpare);
    }),
    { numRuns: 50 },
  );
});

interface Landed {
  readonly view: Uint8Array;
  readonly mark: number;
}

test("a room is full when all of it was handed on, and says when it has one place left", () => {
  const room = new LandingRoom();
  const slots: SealedSlot[] = [];
  for (;;) {
    const place = room.place(Number.POSITIVE_INFINITY);
    if (!place) break;
    room.filled(place.length);
    const hadSpare = room.hasSpare;
    const slot = room.seal();
    assert.ok(slot);
    slots.push(slot);
    assert.equal(room.place(1) !== undefined, hadSpare);
  }
  assert.throws(() => room.filled(1), /no place/);
  for (const slot of slots) room.free(slot);
  assert.ok(room.isEmpty);
});

test("there are so many rooms and no more; one that somebody may still write to is not given away again", () => {
  using rooms = new LandingRooms();
  const taken: LandingRoom[] = [];
  for (let room = rooms.tryTake(); room; room = rooms.tryTake()) taken.push(room);
  assert.equal(taken.length, 8);
  const [free, busy, unsealed] = taken;
  assert.ok(free && busy && unsealed);
  unsealed.filled(1);
  rooms.giveBack(free, { isFree: true });
  rooms.giveBack(busy, { isFree: false });
  rooms.giveBack(unsealed, { isFree: true });
  const again = [rooms.tryTake(), rooms.tryTake(), rooms.tryTake(), rooms.tryTake()];
  assert.ok(again[0] === free && again[1] && again[2] && !again[3]);
  assert.ok(!again.includes(busy) && !again.includes(unsealed));
});
