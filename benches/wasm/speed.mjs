// One GRU layer, forward: gru-cpu and ONNX Runtime on WebAssembly, interleaved in one process.
//
//     node speed.mjs FOLDER_WITH_NODE_MODULES MODULE.wasm...
//
// Both use one thread and weights packed in advance. The script first compares their states. ONNX
// Runtime's time includes passing x and Y, as for its users.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { argv } from 'node:process';
import { pathToFileURL } from 'node:url';
import { basename, resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';

// Newer versions of Node enable this by default.
setFlagsFromString('--experimental-wasm-relaxed-simd');

const [, , peer, ...files] = argv;
const require = createRequire(pathToFileURL(resolve(peer, 'package.json')));
const ort = require('onnxruntime-web');
ort.env.wasm.numThreads = 1;

// N, T, I, H, as in the other benchmarks.
const SHAPES = {
  stream: [1, 128, 64, 128],
  audio: [1, 2048, 1, 32],
  'char-s': [32, 64, 128, 256],
};
const ROUNDS = 15;
const ROUND = 150; // ms
const TOLERANCE = 2e-5;

const modules = await Promise.all(files.map(async (file) => {
  const { instance } = await WebAssembly.instantiate(await readFile(file), {});
  return instance.exports;
}));
const array = (gru, k) => new Float32Array(gru.memory.buffer, gru.pointer(k), gru.length(k)).slice();

// Protocol buffers, as far as a graph of one node needs them.
const varint = (value) => {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
};
const field = (id, content) => {
  if (typeof content === 'number') return Buffer.from([...varint(id * 8), ...varint(content)]);
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from([...varint(id * 8 + 2), ...varint(bytes.length)]), bytes]);
};
const message = (...fields) => Buffer.concat(fields);
const FLOAT = 1;
const INT = 2;

// A model with one GRU node: Y [T, 1, N, H] from X [T, N, I]. ONNX orders the gates z, r, n.
function onnx(n, t, i, h, [w, r, b]) {
  const tensor = (name, dims, data) =>
    message(...dims.map((size) => field(1, size)), field(2, FLOAT), field(8, name),
      field(9, Buffer.from(data.buffer)));
  const value = (name, dims) => {
    const shape = message(...dims.map((size) => field(1, message(field(1, size)))));
    return message(field(1, name), field(2, message(field(1, message(field(1, FLOAT), field(2, shape))))));
  };
  const attribute = (name, number) => message(field(1, name), field(3, number), field(20, INT));
  const node = message(...['X', 'W', 'R', 'B'].map((name) => field(1, name)), field(2, 'Y'), field(4, 'GRU'),
    field(5, attribute('hidden_size', h)), field(5, attribute('linear_before_reset', 1)));
  const graph = message(field(1, node), field(2, 'gru'), field(5, tensor('W', [1, 3 * h, i], w)),
    field(5, tensor('R', [1, 3 * h, h], r)), field(5, tensor('B', [1, 6 * h], b)),
    field(11, value('X', [t, n, i])), field(12, value('Y', [t, 1, n, h])));
  return message(field(1, 8), field(7, graph), field(8, message(field(1, ''), field(2, 17))));
}

// Reorders rows of gates from r, z, n to z, r, n.
function reordered(rows, h) {
  const wide = rows.length / (3 * h);
  const gate = (k) => rows.subarray(k * h * wide, (k + 1) * h * wide);
  const out = new Float32Array(rows.length);
  [gate(1), gate(0), gate(2)].forEach((values, k) => out.set(values, k * h * wide));
  return out;
}

// Transposes [A, B, width] to [B, A, width].
function swapped(values, a, b) {
  const width = values.length / (a * b);
  const out = new Float32Array(values.length);
  for (let j = 0; j < a; j += 1) {
    for (let k = 0; k < b; k += 1) {
      out.set(values.subarray((j * b + k) * width, (j * b + k + 1) * width), (k * a + j) * width);
    }
  }
  return out;
}

const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1];

console.log(`Node ${process.version}, onnxruntime-web ${ort.env.versions.web}, one thread; median of ${ROUNDS}`);
const names = ['ONNX Runtime', ...files.map((file) => basename(file, '.wasm'))];
console.log(['shape   ', ...names.map((name) => name.padStart(14))].join(''));
for (const [name, [n, t, i, h]] of Object.entries(SHAPES)) {
  for (const gru of modules) gru.prepare(n, t, i, h);
  const [x, w, r, bi, bh] = [0, 1, 2, 3, 4].map((k) => array(modules[0], k));
  const biases = new Float32Array(6 * h);
  biases.set(reordered(bi, h));
  biases.set(reordered(bh, h), 3 * h);
  const rows = (columns, from) => reordered(swapped(columns, from, 3 * h), h);
  const model = onnx(n, t, i, h, [rows(w, i), rows(r, h), biases]);
  const session = await ort.InferenceSession.create(model, { executionProviders: ['wasm'] });
  const feeds = { X: new ort.Tensor('float32', swapped(x, n, t), [t, n, i]) };

  const { Y } = await session.run(feeds);
  const expected = swapped(Y.data, t, n);
  for (const gru of modules) {
    gru.forward();
    const furthest = array(gru, 5).reduce((most, value, k) => {
      const off = Math.abs(value - expected[k]);
      return off <= most || Number.isNaN(most) ? most : off; // NaN counts as the largest
    }, 0);
    if (!(furthest <= TOLERANCE)) throw new Error(`${name}: the states differ by ${furthest}`);
  }

  const once = async (run) => {
    let calls = 0;
    const start = performance.now();
    do {
      await run();
      calls += 1;
    } while (performance.now() - start < ROUND);
    return (performance.now() - start) / calls;
  };
  const runs = [() => session.run(feeds), ...modules.map((gru) => () => gru.forward())];
  const times = runs.map(() => []);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [k, run] of runs.entries()) times[k].push(await once(run));
  }
  const medians = times.map((of) => `${median(of).toFixed(3)} ms`.padStart(14));
  console.log([name.padEnd(8), ...medians].join(''));
}
