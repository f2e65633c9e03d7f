// The texts of a page whose contrast to what is behind them is below 4.5 (WCAG AA); 3 if large.
(() => {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) =>
    [r, g, b]
      .map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
      .reduce((total, value, index) => total + value * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (colour.startsWith("rgb") && (channels(colour)[3] ?? 1) === 1) return channels(colour);
    }
    return channels(getComputedStyle(document.body).backgroundColor);
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
    if (!text || !element.checkVisibility() || element.closest("script, style, :disabled")) continue;
    const style = getComputedStyle(element);
    const [light, dark] = [luminance(channels(style.color)), luminance(ground(element))].sort((a, b) => b - a);
    const large = parseFloat(style.fontSize) >= 24;
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < (large ? 3 : 4.5)) faint.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return faint;
})()
