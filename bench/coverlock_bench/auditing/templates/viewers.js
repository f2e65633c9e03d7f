// Turns each element of a report that names two pictures, before and after, into a viewer of them.

import { toPicture } from "./picture.js";
import { viewer } from "./viewer.js";

for (const place of document.querySelectorAll("[data-before]")) {
  const [before, after] = ["before", "after"].map((side) => {
    const image = document.getElementById(place.dataset[side]);
    return image.decode().then(() => ({ picture: toPicture(image), label: place.dataset[`${side}Label`] }));
  });
  Promise.all([before, after]).then((pair) => place.replaceChildren(viewer(...pair, place.dataset.residual)));
}
