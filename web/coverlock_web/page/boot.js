// Makes one file of many modules: each inlined module becomes an address that later ones import, and
// the last one runs.
const addresses = {};
for (const script of document.querySelectorAll("script[data-module]")) {
  const code = script.textContent.replace(/from "\.\/([\w.]+)"/g, (_, name) => `from "${addresses[name]}"`);
  const named = `${code}\n//# sourceURL=${script.dataset.module}`;
  addresses[script.dataset.module] = URL.createObjectURL(new Blob([named], { type: "text/javascript" }));
}
import(Object.values(addresses).at(-1));
