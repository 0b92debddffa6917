// xterm.js writes <style> elements and style attributes, which `style-src 'self'` forbids. The same rules set through the
// CSS object model are allowed, since only scripts of the page reach it: that is where they go.

export function keepStylesOutOfMarkup(): void {
  const createElement = document.createElement.bind(document);
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    if (name !== "style") return createElement(name, options);
    const element = createElement("template"); // even an empty <style> is refused
    adopt(element);
    return element;
  }) as typeof document.createElement;

  const setAttribute = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function (name: string, value: string) {
    if (name === "style" && this instanceof HTMLElement) this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}

function adopt(element: HTMLElement): void {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  let rules = "";
  Object.defineProperty(element, "textContent", {
    get: () => rules,
    set: (text: string) => {
      rules = text;
      sheet.replaceSync(text);
    },
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
}
