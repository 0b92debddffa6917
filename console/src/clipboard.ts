// Copy and paste. Browsers give the clipboard to pages over TLS only; elsewhere there is a window to select or to type in.

/** Whether the text is on the clipboard now. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  const before = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}

/** The clipboard's text, null where the browser does not give it. */
export async function clipboardText(): Promise<string | null> {
  try {
    return await navigator.clipboard.readText();
  } catch {
    return null;
  }
}

/** The window with text: to read and select what the terminal shows, or to put in what is to be pasted. */
export class TextWindow {
  private readonly dialog = document.querySelector<HTMLDialogElement>("#text")!;
  private readonly title = this.dialog.querySelector("h2")!;
  private readonly body = this.dialog.querySelector("textarea")!;
  private readonly sendButton = this.dialog.querySelector<HTMLButtonElement>("#text-send")!;

  constructor(send: (text: string) => void, closed: () => void) {
    this.sendButton.addEventListener("click", () => {
      const text = this.body.value;
      this.dialog.close();
      send(text);
    });
    this.dialog.querySelector("#text-close")!.addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => {
      this.body.value = "";
      closed();
    });
  }

  show(text: string): void {
    this.open("Text of the terminal", text, false);
    this.body.scrollTop = this.body.scrollHeight;
  }

  ask(): void {
    this.open("Paste here, then send", "", true);
  }

  private open(title: string, text: string, writable: boolean): void {
    this.title.textContent = title;
    this.body.value = text;
    this.body.readOnly = !writable;
    this.sendButton.hidden = !writable;
    this.dialog.showModal();
    this.body.focus();
  }
}
