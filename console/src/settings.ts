// What the browser remembers of the reader's wishes. Never anything of a session.

export function remembered(name: string): string | null {
  try {
    return localStorage.getItem(`zun.console.${name}`);
  } catch {
    return null; // storage is closed to the page: within a sandboxed frame, or by the reader
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`zun.console.${name}`, value);
  } catch {
    // as above: the wish holds until the page is closed
  }
}
