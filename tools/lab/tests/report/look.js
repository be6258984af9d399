// What a person would object to: text over text, text beyond the page or its figure, text that cannot be told from its ground.
(() => {
  const problems = [];
  const name = text => JSON.stringify(text.data.trim().replace(/\s+/g, " ").slice(0, 50));
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = walker.nextNode());) {
    if (!text.data.trim()) continue;
    const scroller = text.parentElement.closest(".scroll");
    const frame = scroller && scroller.getBoundingClientRect();
    const figure = text.parentElement.closest("figure");
    const ground = figure && figure.getBoundingClientRect();
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const r of range.getClientRects()) {
      if (r.width < 1 || r.height < 1) continue;
      if (frame && (r.left >= frame.right - 1 || r.right <= frame.left + 1)) continue; // scrolled away
      boxes.push({ text, left: r.left, right: frame ? Math.min(r.right, frame.right) : r.right, top: r.top, bottom: r.bottom });
      if (!frame && (r.left < -0.5 || r.right > innerWidth + 0.5)) problems.push(`${name(text)} leaves the page (${r.left} to ${r.right})`);
      if (ground && (r.left < ground.left - 0.5 || r.right > ground.right + 0.5)) problems.push(`${name(text)} leaves its figure`);
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length; i++) {
    for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom; j++) {
      const [a, b] = [boxes[i], boxes[j]];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Lines of one paragraph touch: their boxes are higher than their letters.
      if (wide > 1.5 && high > 0.3 * Math.min(a.bottom - a.top, b.bottom - b.top)) problems.push(`${name(a.text)} and ${name(b.text)} overlap`);
    }
  }
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, below) => top.slice(0, 3).map((value, i) => value * top[3] / 255 + below[i] * (1 - top[3] / 255)).concat(255);
  const light = colour => colour.slice(0, 3).map(value => value / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const seen = new Set();
  for (const { text } of boxes) {
    const element = text.parentElement;
    const style = getComputedStyle(element);
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(getComputedStyle(e).backgroundColor);
    let ground = [255, 255, 255, 255];
    for (const layer of layers.reverse()) ground = over(rgb(layer), ground);
    const ink = over(rgb(element instanceof SVGElement ? style.fill : style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    const key = ink + "/" + ground;
    if (contrast < 4.5 && !seen.has(key)) { seen.add(key); problems.push(`${name(text)} is hard to read: contrast ${contrast.toFixed(2)}`); }
  }
  const most = document.documentElement.scrollWidth;
  if (most > innerWidth) problems.push(`the page is ${most} wide on a screen of ${innerWidth}`);
  return { problems, texts: boxes.length, charts: document.querySelectorAll("figure svg").length,
           headings: [...document.querySelectorAll("h2")].map(h => h.textContent), outside: performance.getEntriesByType("resource").length };
})()
