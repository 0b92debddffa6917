// A finger scrolls: the lines of the terminal, or, as the turn of a wheel, what a full-screen program shows.

import type { Terminal } from "@xterm/xterm";

const STILL = 6; // pixels within which a touch is a tap, which brings up the keyboard

export function scrollByTouch(element: HTMLElement, terminal: Terminal): void {
  let last: number | null = null;
  let rest = 0; // of a line
  let moved = false;
  element.addEventListener("touchstart", (event) => {
    last = event.touches.length === 1 ? event.touches[0].clientY : null;
    moved = false;
    rest = 0;
  }, { passive: true });
  element.addEventListener("touchmove", (event) => {
    if (last === null || event.touches.length !== 1) return;
    const { clientX, clientY } = event.touches[0];
    const deltaY = last - clientY;
    if (!moved && Math.abs(deltaY) < STILL) return;
    moved = true;
    last = clientY;
    event.preventDefault();
    if (terminal.modes.mouseTrackingMode !== "none" || terminal.buffer.active.type === "alternate") {
      const wheel = { deltaY, deltaMode: WheelEvent.DOM_DELTA_PIXEL, clientX, clientY, bubbles: true, cancelable: true };
      event.target?.dispatchEvent(new WheelEvent("wheel", wheel));
      return;
    }
    rest += deltaY / (element.clientHeight / terminal.rows);
    terminal.scrollLines(Math.trunc(rest));
    rest -= Math.trunc(rest);
  }, { passive: false });
  element.addEventListener("touchend", (event) => {
    if (moved) event.preventDefault(); // no click follows: the keyboard stays as it is
    last = null;
  });
}
