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

/** Some numbers times the first rows of a matrix: (columns,). Four rows at a time take half as long. */
export function times(values, { columns, numbers }) {
  const found = new Float64Array(columns);
  const fours = values.length - (values.length % 4);
  for (let row = 0; row < fours; row += 4) {
    const one = values[row], two = values[row + 1], three = values[row + 2], four = values[row + 3];
    let a = row * columns, b = a + columns, c = b + columns, d = c + columns;
    for (let column = 0; column < columns; column++) {
      found[column] += one * numbers[a++] + two * numbers[b++] + three * numbers[c++] + four * numbers[d++];
    }
  }
  for (let row = fours; row < values.length; row++) {
    for (let column = 0; column < columns; column++) found[column] += values[row] * numbers[row * columns + column];
  }
  return found;
}

export function rowOf({ columns, numbers }, row) {
  return numbers.subarray(row * columns, (row + 1) * columns);
}

/** The product of a row of one matrix and a row of another. */
export function dot(one, row, other, otherRow) {
  const { columns, numbers } = one, others = other.numbers;
  let total = 0;
  for (let a = row * columns, b = otherRow * columns, end = a + columns; a < end; a++, b++) {
    total += numbers[a] * others[b];
  }
  return total;
}
