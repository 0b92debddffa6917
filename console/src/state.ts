// What may be said of a session, and what a closed connection means.

export type State =
  | { name: "idle" }
  | { name: "connecting" }
  | { name: "connected" }
  | { name: "ended"; exitCode: number | null; reason: string }
  | { name: "refused"; reason: string }
  /** nothing was opened: the token is still good; without a reason where the handshake itself failed */
  | { name: "failed"; reason: string }
  /** `again`: the session had not begun, so that its token may still be good */
  | { name: "lost"; reason: string; again: boolean };

export interface Closed {
  code: number;
  reason: string;
  /** whether the handshake was through */
  opened: boolean;
  /** whether the session itself began: its node was reached */
  began: boolean;
  /** whether there was any output */
  shown: boolean;
  exitCode: number | null;
}

/** What the end of a connection means. Before the handshake the token cannot have been used: that may be tried again. */
export function meaning(closed: Closed): State {
  if (!closed.opened) return { name: "failed", reason: "" };
  if (closed.code === 1013 && !closed.began) return { name: "failed", reason: closed.reason };
  if (closed.code === 1000) return { name: "ended", exitCode: closed.exitCode, reason: closed.reason };
  if (closed.code === 1008 && !closed.shown) return { name: "refused", reason: closed.reason };
  if (closed.code === 1008) return { name: "ended", exitCode: closed.exitCode, reason: closed.reason };
  return { name: "lost", reason: closed.reason, again: !closed.began };
}

/** Can the same session be asked for again? */
export function retriable(state: State): boolean {
  return state.name === "failed" || (state.name === "lost" && state.again);
}

/** The sentence shown for a state. */
export function sentence(state: State): string {
  switch (state.name) {
    case "idle":
      return "No session: this page was opened without one, or was reloaded.";
    case "connecting":
      return "Connecting …";
    case "connected":
      return "Connected.";
    case "ended":
      if (state.exitCode !== null) return `Ended with exit code ${state.exitCode}.`;
      return state.reason ? `Ended: ${stop(state.reason)}` : "Ended.";
    case "refused":
      return `Refused: ${stop(state.reason || "the proxy gave no reason")}`;
    case "failed":
      return `No connection: ${stop(state.reason || "the proxy cannot be reached, or takes no sessions")}`;
    case "lost":
      return `Lost: ${stop(state.reason || "the connection to the proxy broke off")}`;
  }
}

function stop(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
