// Runs in the harness, not in the pages: measures the page in each frame.

function rgb(text) {
  const parts = text.match(/[\d.]+/g).map(Number);
  return { r: parts[0], g: parts[1], b: parts[2], a: parts.length > 3 ? parts[3] : 1 };
}

function over(top, below) {
  const mix = (one, two) => one * top.a + two * (1 - top.a);
  return { r: mix(top.r, below.r), g: mix(top.g, below.g), b: mix(top.b, below.b), a: 1 };
}

function luminance(color) {
  const linear = (value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b);
}

function background(element, view) {
  const layers = [];
  for (let one = element; one; one = one.parentElement) {
    layers.push(rgb(view.getComputedStyle(one).backgroundColor));
  }
  let color = { r: 255, g: 255, b: 255, a: 1 };
  for (const layer of layers.reverse()) color = over(layer, color);
  return color;
}

function contrast(element, view) {
  const below = background(element, view);
  const text = over(rgb(view.getComputedStyle(element).color), below);
  const [light, dark] = [luminance(text), luminance(below)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function measure(frame) {
  const view = frame.contentWindow;
  const page = frame.contentDocument;
  page.querySelectorAll("details").forEach((one) => (one.open = true));
  const root = page.documentElement;
  const tooWide = [];
  const lowContrast = [];
  let texts = 0;
  for (const element of page.body.querySelectorAll("*")) {
    const name = `${element.tagName.toLowerCase()}.${element.className} ${element.textContent.slice(0, 60)}`;
    const box = element.getBoundingClientRect();
    if (box.right > root.clientWidth + 1 && !element.closest(".scroll")) tooWide.push(name);
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || box.width === 0) continue;
    texts += 1;
    if (contrast(element, view) < 4.5) lowContrast.push(`${contrast(element, view).toFixed(2)} ${name}`);
  }
  return {
    dark: view.matchMedia("(prefers-color-scheme: dark)").matches,
    width: root.clientWidth,
    scrollWidth: root.scrollWidth,
    tooWide,
    lowContrast,
    texts,
  };
}

window.addEventListener("load", () => {
  const frames = [...document.querySelectorAll("iframe")];
  const results = Object.fromEntries(frames.map((frame) => [frame.id, measure(frame)]));
  document.getElementById("result").textContent = JSON.stringify(results);
});
