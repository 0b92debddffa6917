import assert from "node:assert/strict";
import test from "node:test";
import { parseAddress, socketUrl } from "../src/address";

const whole = { token: "t-1_x", uuid: "web", execId: "ab12" };

test("a session is found in the API's URL, in the page's and in a bare query", () => {
  for (const text of ["ws://proxy:6784/?token=t-1_x&uuid=web&exec_id=ab12", " wss://p/z/console?uuid=web&token=t-1_x&exec_id=ab12 \n",
    "https://p/console?token=t-1_x&uuid=web&exec_id=ab12#x", "token=t-1_x&uuid=web&exec_id=ab12"])
    assert.deepEqual(parseAddress(text), whole);
});

test("without exec_id it is an attach; without token or uuid it is none", () => {
  assert.deepEqual(parseAddress("ws://p/?token=t&uuid=u"), { token: "t", uuid: "u", execId: null });
  for (const text of ["", "nonsense", "ws://p/?token=t", "ws://p/?token=&uuid=u", "?uuid=u"]) assert.equal(parseAddress(text), null);
});

test("the session is opened on the proxy of the page, under the page's prefix", () => {
  assert.equal(socketUrl("http://proxy:6784/console?token=old", whole), "ws://proxy:6784/?token=t-1_x&uuid=web&exec_id=ab12");
  assert.equal(socketUrl("https://cloud/zun/console", { ...whole, uuid: "a b&c", execId: null }), "wss://cloud/zun/?token=t-1_x&uuid=a+b%26c");
});
