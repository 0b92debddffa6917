import assert from "node:assert/strict";
import test from "node:test";
import { type Closed, meaning, retriable, sentence } from "../src/state";

const closed = (part: Partial<Closed>): Closed => ({ code: 1000, reason: "", opened: true, began: true, shown: true, exitCode: null, ...part });
const told = (part: Partial<Closed>) => sentence(meaning(closed(part)));

test("an ended session tells its exit code, or the reason, or only that it ended", () => {
  assert.equal(told({ exitCode: 0, reason: "Target closed" }), "Ended with exit code 0.");
  assert.equal(told({ exitCode: 137 }), "Ended with exit code 137.");
  assert.equal(told({ reason: "Target closed" }), "Ended: Target closed.");
  assert.equal(told({}), "Ended.");
});

test("1008 before any output is a refusal, later it is an end with its reason", () => {
  assert.equal(told({ code: 1008, shown: false, reason: "The token was used." }), "Refused: The token was used.");
  assert.equal(told({ code: 1008, reason: "Idle for 3600 s" }), "Ended: Idle for 3600 s.");
});

test("what breaks off is lost; what did not begin can be tried again", () => {
  assert.equal(retriable(meaning(closed({ code: 1011, began: false }))), true);
  assert.equal(retriable(meaning(closed({ code: 1011 }))), false);
  assert.equal(retriable(meaning(closed({ code: 1008, began: false, shown: false }))), false);
  assert.equal(retriable(meaning(closed({ code: 1006, opened: false, began: false }))), true);
  assert.equal(told({ code: 1011, reason: "The node went away" }), "Lost: The node went away.");
  assert.equal(told({ code: 1006 }), "Lost: the connection to the proxy broke off.");
  assert.equal(told({ code: 1006, opened: false }), "No connection: the proxy cannot be reached, or takes no sessions.");
  assert.equal(retriable(meaning(closed({ code: 1013, began: false, shown: false }))), true);
  assert.equal(told({ code: 1013, reason: "Too many.", began: false, shown: false }), "No connection: Too many.");
});
