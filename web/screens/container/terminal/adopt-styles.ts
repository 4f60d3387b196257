/**
 * xterm.js writes its colours into <style> elements and style attributes, which the policy of the console refuses. Here
 * both become what a script may set under any policy: sheets that the document adopts, and the style of an element.
 */
let isDone = false;

/** To be called once before the first terminal is opened. */
export function adoptStyles(): void {
  if (isDone) return;
  isDone = true;
  const create = document.createElement.bind(document);
  const own = (name: string, options?: ElementCreationOptions) =>
    name === 'style' ? adopted(create('template')) : create(name, options);
  Object.defineProperty(document, 'createElement', { value: own, configurable: true, writable: true });
  const setAttribute = HTMLElement.prototype.setAttribute;
  HTMLElement.prototype.setAttribute = function set(this: HTMLElement, name: string, value: string) {
    if (name === 'style') this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}

/** An element that holds no style itself: what is written into it is a sheet of the document until it is removed. */
function adopted(element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  const remove = element.remove.bind(element);
  let text = '';
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, 'textContent', {
    get: () => text,
    set: (css: string) => {
      text = css;
      sheet.replaceSync(css);
    },
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    remove();
  };
  return element;
}
