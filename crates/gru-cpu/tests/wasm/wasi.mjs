// Runs a program of the target wasm32-wasip1 in Node, as Cargo's runner:
//
//     export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings $PWD/crates/gru-cpu/tests/wasm/wasi.mjs"
//     cargo test -p gru-cpu --target wasm32-wasip1
import { readFile } from 'node:fs/promises';
import { argv, cwd, env, exit } from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { WASI } from 'node:wasi';

// Newer versions of Node have it without asking.
setFlagsFromString('--experimental-wasm-relaxed-simd');

const args = argv.slice(2);
const module = await WebAssembly.compile(await readFile(args[0]));
const wasi = new WASI({ version: 'preview1', args, env, preopens: { '/': '/', '.': cwd() } });

// What an old libc lacks (threads, which nobody here starts) is linked as an import: it fails.
const imports = wasi.getImportObject();
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
  imports[from] ??= {};
  imports[from][name] ??= () => { throw new Error(`${name} is missing`); };
}
exit(wasi.start(await WebAssembly.instantiate(module, imports)));
