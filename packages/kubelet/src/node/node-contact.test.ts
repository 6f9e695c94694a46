import assert from "node:assert/strict";
import { test } from "node:test";
import { NodeContact } from "./node-contact.ts";

const minute = 60_000;

function openContact(): { contact: NodeContact; advance: (ms: number) => void } {
  let time = 1_000_000;
  const contact = new NodeContact(40_000, () => time);
  return { contact, advance: (ms) => (time += ms) };
}

test("heartbeats in time are contact", () => {
  const { contact, advance } = openContact();
  for (let beat = 0; beat < 10; beat += 1) {
    advance(10_000);
    assert.equal(contact.isLost(), false);
    contact.confirm();
  }
});

test("after a gap contact counts as lost until the watch has surely caught up", () => {
  const { contact, advance } = openContact();
  advance(41_000);
  assert.equal(contact.isLost(), true);
  contact.confirm();
  assert.equal(contact.isLost(), true, "events of the gap may still arrive");
  for (let beat = 0; beat < 29; beat += 1) {
    advance(10_000);
    contact.confirm();
    assert.equal(contact.isLost(), true);
  }
  advance(10_000);
  contact.confirm();
  assert.equal(contact.isLost(), false);
});

test("a removed Node object and a clock that was set back are losses of contact", () => {
  const removed = openContact();
  removed.contact.lose();
  assert.equal(removed.contact.isLost(), true);
  const setBack = openContact();
  setBack.advance(-60 * minute);
  assert.equal(setBack.contact.isLost(), true);
  setBack.contact.confirm();
  assert.equal(setBack.contact.isLost(), true);
});
