// The terminal: its looks, its size, its text.

import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import { remember, remembered } from "./settings";

const LIGHT: ITheme = {
  background: "#ffffff", foreground: "#1b1d21", cursor: "#1b1d21", cursorAccent: "#ffffff", selectionBackground: "#b3d1ff",
  black: "#1b1d21", red: "#a3120f", green: "#0b6327", yellow: "#6b4a00", blue: "#1b4f9c", magenta: "#86258a", cyan: "#075e6b", white: "#5a5f69",
  brightBlack: "#4a4f58", brightRed: "#c4211d", brightGreen: "#0f7a31", brightYellow: "#805900", brightBlue: "#2563c4",
  brightMagenta: "#a12fa6", brightCyan: "#0a7283", brightWhite: "#33373e",
};
const DARK: ITheme = {
  background: "#14161a", foreground: "#e8eaee", cursor: "#e8eaee", cursorAccent: "#14161a", selectionBackground: "#3b5a8c",
  black: "#32363f", red: "#ff8078", green: "#7ee29a", yellow: "#f2cf73", blue: "#9cc2ff", magenta: "#e3a3e6", cyan: "#7fdbe8", white: "#d5d8de",
  brightBlack: "#8a909c", brightRed: "#ffa9a3", brightGreen: "#a5efba", brightYellow: "#f8e1a3", brightBlue: "#c0d9ff",
  brightMagenta: "#f0c8f2", brightCyan: "#aeeaf2", brightWhite: "#ffffff",
};
const LETTERS = { least: 8, most: 32, usual: 14 }; // pixels

export class Screen {
  readonly terminal: Terminal;
  private readonly fit = new FitAddon();

  constructor(element: HTMLElement, resized: () => void) {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.terminal = new Terminal({
      fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace',
      fontSize: Number(remembered("letters")) || LETTERS.usual,
      minimumContrastRatio: 4.5,
      screenReaderMode: remembered("reader") === "true",
      scrollback: 5000,
      theme: dark.matches ? DARK : LIGHT,
    });
    this.terminal.loadAddon(this.fit);
    this.terminal.open(element);
    dark.addEventListener("change", () => (this.terminal.options.theme = dark.matches ? DARK : LIGHT));
    this.terminal.onResize(resized);
    let asked = 0;
    new ResizeObserver(() => {
      cancelAnimationFrame(asked);
      asked = requestAnimationFrame(() => this.fit.fit());
    }).observe(element);
    this.fit.fit();
  }

  get size(): { height: number; width: number } {
    return { height: this.terminal.rows, width: this.terminal.cols };
  }

  get readerMode(): boolean {
    return this.terminal.options.screenReaderMode === true;
  }

  set readerMode(on: boolean) {
    this.terminal.options.screenReaderMode = on;
    remember("reader", String(on));
  }

  /** Letters larger (or smaller) by so many pixels. */
  letters(by: number): void {
    const size = Math.min(LETTERS.most, Math.max(LETTERS.least, (this.terminal.options.fontSize ?? LETTERS.usual) + by));
    this.terminal.options.fontSize = size;
    remember("letters", String(size));
    this.fit.fit();
  }

  /** All that the terminal holds, wrapped lines joined. */
  text(): string {
    const buffer = this.terminal.buffer.active;
    const lines: string[] = [];
    for (let row = 0; row < buffer.length; row++) {
      const line = buffer.getLine(row);
      if (!line) continue;
      const wrapsOn = buffer.getLine(row + 1)?.isWrapped ?? false;
      const text = line.translateToString(!wrapsOn);
      if (line.isWrapped && lines.length) lines[lines.length - 1] += text;
      else lines.push(text);
    }
    return lines.join("\n").trimEnd();
  }
}
