// Matrices { rows, columns, numbers } in single precision, row by row, and their products.

export function matrix(rows, columns) {
  return { rows, columns, numbers: new Float32Array(rows * columns) };
}

/** Matrices of `shapes` that lie one after the other in bytes. */
export function matricesOf(bytes, shapes) {
  const all = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  let start = 0;
  return shapes.map(([rows, columns]) => ({ rows, columns, numbers: all.subarray(start, (start += rows * columns)) }));
}

export function rowOf({ columns, numbers }, row) {
  return numbers.subarray(row * columns, (row + 1) * columns);
}

/** A matrix whose rows are these. */
export function stacked(rows) {
  const made = matrix(rows.length, rows[0].length);
  rows.forEach((row, place) => made.numbers.set(row, place * made.columns));
  return made;
}

/** Every row of `one` times every row of `other`; two of each at a time take half as long as one by one. */
export function product(one, other) {
  const count = one.rows, found = matrix(count, other.rows);
  const { columns } = one, a = one.numbers, b = other.numbers;
  for (let row = 0; row < count; row += 2) {
    const next = Math.min(row + 1, count - 1);
    for (let column = 0; column < other.rows; column += 2) {
      const beside = Math.min(column + 1, other.rows - 1);
      let i = row * columns, j = next * columns, k = column * columns, l = beside * columns;
      let p = 0, q = 0, r = 0, s = 0;
      for (const end = i + columns; i < end; i++, j++, k++, l++) {
        p += a[i] * b[k];
        q += a[i] * b[l];
        r += a[j] * b[k];
        s += a[j] * b[l];
      }
      found.numbers[row * other.rows + column] = p;
      found.numbers[row * other.rows + beside] = q;
      found.numbers[next * other.rows + column] = r;
      found.numbers[next * other.rows + beside] = s;
    }
  }
  return found;
}

/** The numbers x with A x = b, for a positive definite A in rows: Gaussian elimination without pivots. */
export function solved(rows, numbers) {
  const left = rows.map((row, place) => [...row, numbers[place]]);
  left.forEach((row, place) => {
    left.forEach((other, below) => {
      const share = below === place ? 0 : other[place] / row[place];
      other.forEach((_, column) => (other[column] -= share * row[column]));
    });
  });
  return left.map((row, place) => row.at(-1) / row[place]);
}

/** One row of a matrix times one of another. */
export function dot(one, row, other, otherRow) {
  const { columns, numbers } = one, others = other.numbers;
  let total = 0;
  for (let a = row * columns, b = otherRow * columns, end = a + columns; a < end; a++, b++) {
    total += numbers[a] * others[b];
  }
  return total;
}
