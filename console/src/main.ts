// The page: takes the session's token out of the address bar, opens the session, and says how it stands.

import { type Address, parseAddress } from "./address";
import { clipboardText, copy, TextWindow } from "./clipboard";
import { bindKeys, Modifiers, sequence } from "./keys";
import { Session } from "./session";
import { remember, remembered } from "./settings";
import { retriable, sentence, type State } from "./state";
import { keepStylesOutOfMarkup } from "./styles";
import { Screen } from "./terminal";
import { scrollByTouch } from "./touch";

// The token stays in the address, for the reload that the page asks for.
if (getComputedStyle(document.getElementById("unstarted")!).animationName === "none") throw new Error("console.css has not arrived");
const opened = location.href;
history.replaceState(null, "", location.pathname);
keepStylesOutOfMarkup();

const element = <T extends HTMLElement = HTMLElement>(id: string): T => document.getElementById(id) as T;
const encoder = new TextEncoder();
const modifiers = new Modifiers();
let session: Session | null = null;
let address: Address | null = null; // kept only while it may be tried again
let state: State = { name: "idle" };
let tty = true; // whether a terminal is on the other end

const screen = new Screen(element("terminal"), () => session?.resize());
const { terminal } = screen;

function show(next: State): void {
  state = next;
  element("state").dataset.state = next.name;
  element("state").textContent = sentence(next);
  element("next").hidden = next.name === "connecting" || next.name === "connected";
  element("again").hidden = !retriable(next);
  if (next.name !== "connecting" && !retriable(next)) address = null;
  if (next.name !== "connected") element("end-input").hidden = true;
  if (next.name === "connected") terminal.focus();
}

function open(wanted: Address): void {
  session?.close();
  address = wanted;
  terminal.reset();
  show({ name: "connecting" });
  const mine: Session = new Session(opened, wanted, {
    // a session that another took the place of has nothing more to say
    state: (next) => session === mine && show(next),
    output: (data, shown) => (session === mine ? terminal.write(data, shown) : shown()),
    began: (withTerminal) => {
      tty = withTerminal;
      terminal.options.convertEol = !tty;
      element("end-input").hidden = tty;
    },
    size: () => screen.size,
  });
  session = mine;
}

function type(text: string): void {
  if (tty) return session?.send(encoder.encode(text));
  // What a terminal's driver would do: Control and D ends the input, Enter is a line feed, and what is typed is shown.
  if (text === "\x04") return session?.endInput();
  const lines = text.replaceAll("\r", "\n");
  if (session?.open) terminal.write(lines);
  session?.send(encoder.encode(lines));
}

function paste(text: string): void {
  terminal.paste(text);
  terminal.focus();
}

async function copySelection(): Promise<void> {
  if (terminal.hasSelection() && (await copy(terminal.getSelection()))) terminal.focus();
  else text.show(terminal.getSelection() || screen.text());
}

async function pasteClipboard(): Promise<void> {
  const pasted = await clipboardText();
  if (pasted === null) text.ask();
  else paste(pasted);
}

const text = new TextWindow(paste, () => terminal.focus());
const showModifiers = bindKeys(element("keys"), modifiers, (key) => {
  type(sequence(key, terminal.modes.applicationCursorKeysMode, modifiers));
  modifiers.release();
  showModifiers();
});

terminal.onData((data) => {
  type(modifiers.apply(data));
  showModifiers();
});
terminal.onBinary((data) => session?.send(Uint8Array.from(data, (character) => character.charCodeAt(0))));
terminal.onTitleChange((title) => (document.title = title ? `${title} – Zun console` : "Zun console"));
terminal.attachCustomKeyEventHandler((event) => {
  if (!event.ctrlKey || !event.shiftKey) return true;
  if (event.code === "KeyV") return false; // the browser's own paste
  if (event.code !== "KeyC" && event.code !== "F6") return true;
  event.preventDefault();
  if (event.type === "keydown") event.code === "F6" ? element("copy").focus() : void copySelection();
  return false;
});
scrollByTouch(element("terminal"), terminal);

function toggle(id: string, on: boolean, change: (on: boolean) => void): void {
  const set = (value: boolean) => {
    element(id).setAttribute("aria-pressed", String(value));
    change(value);
  };
  element(id).addEventListener("click", () => {
    set(element(id).getAttribute("aria-pressed") !== "true");
    terminal.focus();
  });
  set(on);
}

toggle("reader", screen.readerMode, (on) => (screen.readerMode = on));
toggle("show-keys", remembered("keys") ? remembered("keys") === "true" : matchMedia("(pointer: coarse)").matches, (on) => {
  element("keys").classList.toggle("shown", on);
  remember("keys", String(on));
});
element("copy").addEventListener("click", () => void copySelection());
element("paste").addEventListener("click", () => void pasteClipboard());
element("show-text").addEventListener("click", () => text.show(screen.text()));
element("smaller").addEventListener("click", () => screen.letters(-1));
element("larger").addEventListener("click", () => screen.letters(1));
element("end-input").addEventListener("click", () => session?.endInput());
element("again").addEventListener("click", () => address && open(address));
element("open").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = element<HTMLInputElement>("url");
  const wanted = parseAddress(field.value);
  element("url-error").textContent = wanted ? "" : "That is not a session's URL: it has to contain token=… and uuid=…";
  if (!wanted) return field.focus();
  field.value = "";
  open(wanted);
});

// A key such as Control and W must not end a session by accident.
addEventListener("beforeunload", (event) => state.name === "connected" && event.preventDefault());
// A page that comes back from the browser's cache has lost its connection.
addEventListener("pageshow", (event) => event.persisted && location.reload());
// On-screen keyboards that cover the page instead of making it smaller.
visualViewport?.addEventListener("resize", () => {
  document.documentElement.style.setProperty("--height", `${visualViewport!.height}px`);
  scrollTo(0, 0);
});

element("unstarted").remove();
const first = parseAddress(new URL(opened).search);
if (first) open(first);
else show(state);
