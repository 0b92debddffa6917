// One session over one WebSocket, in the sub-protocol zun.console.v1: binary messages are bytes, text ones JSON control.

import { type Address, socketUrl } from "./address";
import { meaning, type State } from "./state";

export const PROTOCOL = "zun.console.v1";
const PIECE = 16 * 1024; // bytes a message to the proxy
const PAUSE_ABOVE = 512 * 1024; // bytes that wait for the terminal
const RESUME_BELOW = 128 * 1024;

export interface Listener {
  state(state: State): void;
  /** Output, and a function to call once it was shown. */
  output(data: Uint8Array, shown: () => void): void;
  /** The session began; without a terminal on its other end, line feeds come alone. */
  began(tty: boolean): void;
  size(): { height: number; width: number };
}

export class Session {
  private readonly socket: WebSocket;
  private opened = false;
  private hasBegun = false;
  private hasShown = false;
  private exitCode: number | null = null;
  private waiting = 0;
  private paused = false;

  constructor(page: string, address: Address, private readonly listener: Listener) {
    this.socket = new WebSocket(socketUrl(page, address), [PROTOCOL]);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      this.opened = true;
      this.resize();
    };
    this.socket.onmessage = ({ data }) => (typeof data === "string" ? this.control(data) : this.data(data));
    this.socket.onclose = ({ code, reason }) =>
      listener.state(meaning({
        code, reason, opened: this.opened, began: this.hasBegun, shown: this.hasShown, exitCode: this.exitCode,
      }));
  }

  get open(): boolean {
    return this.socket.readyState === WebSocket.OPEN;
  }

  send(data: Uint8Array<ArrayBuffer>): void {
    for (let at = 0; this.open && at < data.length; at += PIECE) this.socket.send(data.subarray(at, at + PIECE));
  }

  resize(): void {
    this.tell({ resize: this.listener.size() });
  }

  endInput(): void {
    this.tell({ eof: true });
  }

  close(): void {
    this.socket.close(1000);
  }

  private tell(message: object): void {
    if (this.open) this.socket.send(JSON.stringify(message));
  }

  private control(text: string): void {
    let message: { open?: { tty: boolean }; exit?: number | null };
    try {
      message = JSON.parse(text);
    } catch {
      return; // of a newer proxy: what is not known is passed over
    }
    if (message.open) this.begin(message.open.tty);
    if (typeof message.exit === "number") this.exitCode = message.exit;
  }

  private begin(tty: boolean): void {
    this.hasBegun = true;
    this.listener.began(tty);
    this.listener.state({ name: "connected" });
  }

  private data(data: ArrayBuffer): void {
    this.hasShown = true;
    this.waiting += data.byteLength;
    if (!this.paused && this.waiting > PAUSE_ABOVE) this.pause(true);
    this.listener.output(new Uint8Array(data), () => {
      this.waiting -= data.byteLength;
      if (this.paused && this.waiting < RESUME_BELOW) this.pause(false);
    });
  }

  // A browser reads a WebSocket as fast as it can: without this, output would pile up in the page.
  private pause(paused: boolean): void {
    this.paused = paused;
    this.tell({ pause: paused });
  }
}
