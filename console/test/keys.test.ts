import assert from "node:assert/strict";
import test from "node:test";
import { Modifiers, sequence, withControl } from "../src/keys";

const none = { ctrl: false, alt: false };

test("control characters", () => {
  assert.equal(withControl("c"), "\x03");
  assert.equal(withControl("D"), "\x04");
  assert.equal(withControl("["), "\x1b");
  assert.equal(withControl(" "), "\0");
  assert.equal(withControl("?"), "\x7f");
  assert.equal(withControl("7"), "7");
  assert.equal(withControl("é"), "é");
});

test("a modifier holds for one typed character, and not for reports of the terminal", () => {
  const modifiers = new Modifiers();
  modifiers.ctrl = true;
  assert.equal(modifiers.apply("\x1b[0n"), "\x1b[0n");
  assert.equal(modifiers.apply("c"), "\x03");
  assert.equal(modifiers.apply("c"), "c");
  modifiers.alt = true;
  assert.equal(modifiers.apply("b"), "\x1bb");
  modifiers.ctrl = modifiers.alt = true;
  assert.equal(modifiers.apply("b"), "\x1b\x02");
});

test("keys in both cursor modes and with modifiers", () => {
  assert.equal(sequence("up", false, none), "\x1b[A");
  assert.equal(sequence("up", true, none), "\x1bOA");
  assert.equal(sequence("left", true, { ctrl: true, alt: false }), "\x1b[1;5D");
  assert.equal(sequence("end", false, { ctrl: false, alt: true }), "\x1b[1;3F");
  assert.equal(sequence("pageup", false, none), "\x1b[5~");
  assert.equal(sequence("pagedown", false, { ctrl: true, alt: true }), "\x1b[6;7~");
  assert.equal(sequence("tab", false, none), "\t");
  assert.equal(sequence("escape", false, { ctrl: false, alt: true }), "\x1b\x1b");
});
