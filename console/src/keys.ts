// The row of keys that phones lack, and what a key sends.

const CURSOR: Record<string, string> = { up: "A", down: "B", right: "C", left: "D", home: "H", end: "F" };
const OTHER: Record<string, string> = { escape: "\x1b", tab: "\t" };
const PAGE: Record<string, string> = { pageup: "5", pagedown: "6" };

export class Modifiers {
  ctrl = false;
  alt = false;

  /** What the next typed character becomes; modifiers hold for one. Reports of the terminal are longer and pass. */
  apply(text: string): string {
    if ((!this.ctrl && !this.alt) || [...text].length !== 1) return text;
    const changed = (this.alt ? "\x1b" : "") + (this.ctrl ? withControl(text) : text);
    this.release();
    return changed;
  }

  release(): void {
    this.ctrl = this.alt = false;
  }
}

export function withControl(character: string): string {
  if (character === " ") return "\0";
  if (character === "?") return "\x7f";
  const code = character.toUpperCase().charCodeAt(0);
  return code >= 0x40 && code <= 0x5f ? String.fromCharCode(code & 0x1f) : character;
}

/** The sequence of a key; `application` is the mode that full-screen programs put cursor keys into. */
export function sequence(key: string, application: boolean, modifiers: { ctrl: boolean; alt: boolean }): string {
  const modifier = 1 + (modifiers.alt ? 2 : 0) + (modifiers.ctrl ? 4 : 0);
  if (key in CURSOR) {
    if (modifier > 1) return `\x1b[1;${modifier}${CURSOR[key]}`;
    return (application ? "\x1bO" : "\x1b[") + CURSOR[key];
  }
  if (key in PAGE) return `\x1b[${PAGE[key]}${modifier > 1 ? `;${modifier}` : ""}~`;
  return (modifiers.alt ? "\x1b" : "") + OTHER[key];
}

const REPEAT_AFTER = 400; // milliseconds, as keyboards do
const REPEAT_EVERY = 60;

/** Makes the row work: `press` is called with each key's name. A press leaves the keyboard's focus where it is. */
export function bindKeys(row: HTMLElement, modifiers: Modifiers, press: (key: string) => void): () => void {
  const show = () => {
    for (const button of row.querySelectorAll<HTMLElement>("[data-modifier]"))
      button.setAttribute("aria-pressed", String(modifiers[button.dataset.modifier as "ctrl" | "alt"]));
  };
  for (const button of row.querySelectorAll<HTMLElement>("button")) {
    button.addEventListener("pointerdown", (event) => event.preventDefault());
    button.addEventListener("mousedown", (event) => event.preventDefault());
    const { modifier, key } = button.dataset;
    if (modifier === "ctrl" || modifier === "alt")
      button.addEventListener("click", () => {
        modifiers[modifier] = !modifiers[modifier];
        show();
      });
    else if (key) repeat(button, () => press(key));
  }
  return show;
}

function repeat(button: HTMLElement, press: () => void): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let repeated = false;
  const end = () => clearTimeout(timer);
  const again = () => {
    repeated = true;
    press();
    timer = setTimeout(again, REPEAT_EVERY);
  };
  button.addEventListener("pointerdown", () => {
    repeated = false;
    timer = setTimeout(again, REPEAT_AFTER);
  });
  for (const name of ["pointerup", "pointerleave", "pointercancel"]) button.addEventListener(name, end);
  button.addEventListener("contextmenu", (event) => event.preventDefault());
  button.addEventListener("click", () => {
    end();
    if (!repeated) press();
    repeated = false;
  });
}
