// Runs smoke.wasm as a page would, with nothing to import, and fails if a number is wrong.
import { readFile } from 'node:fs/promises';
import { argv, exit } from 'node:process';

const { instance } = await WebAssembly.instantiate(await readFile(argv[2]), {});
const count = instance.exports.agreeing();
console.log(count > 0 ? `${count} numbers agree` : `${-count} numbers are wrong`);
exit(count > 0 ? 0 : 1);
