// Compiles WGSL with Tint, the compiler of Chromium, with WebGPU's rules. No GPU is needed.
//
//     npm install webgpu@0.6.2
//     node tint.mjs LOG
//
// LOG is a file that CubeCL wrote with the variable CUBECL_DEBUG_LOG. Prints each module that Tint rejects, with the
// reason, and each module with more storage buffers than WebGPU allows on every device. Then prints the largest numbers
// of storage buffers and units of a module.

import { readFileSync } from 'node:fs';
import { create } from 'webgpu';

// WebGPU's default limit.
const BUFFERS = 8;

// This backend compiles nothing further, and has every feature. The adapter requires that `gpu` lives.
const gpu = create(['backend=null']);
const adapter = await gpu.requestAdapter();
const requiredFeatures = ['shader-f16', 'subgroups'].filter((f) => adapter.features.has(f));
const device = await adapter.requestDevice({ requiredFeatures });

const log = readFileSync(process.argv[2], 'utf8');
const kernels = /^name: (\S+)$[^]*?^```wgsl$([^]*?)^```$/gm;
const sources = new Map([...log.matchAll(kernels)].map(([, name, source]) => [source, name]));
let [rejected, buffers, units] = [0, 0, 0];
for (const [code, name] of sources) {
    device.pushErrorScope('validation');
    const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
    await device.popErrorScope();
    if (messages.length > 0) {
        rejected += 1;
        console.log(`${name}\n${messages.map((m) => `${m.lineNum}: ${m.type}: ${m.message}`).join('\n')}\n`);
    }
    const bound = code.split('var<storage').length - 1;
    if (bound > BUFFERS) {
        rejected += 1;
        console.log(`${name}\n${bound} storage buffers, expected at most ${BUFFERS}\n`);
    }
    buffers = Math.max(buffers, bound);
    const [, x, y, z] = code.match(/@workgroup_size\((\d+), (\d+), (\d+)\)/).map(Number);
    units = Math.max(units, x * y * z);
}
console.log(`${sources.size} modules, ${rejected} rejected; at most ${buffers} storage buffers and ${units} units`);
process.exit(rejected > 0 || sources.size === 0 ? 1 : 0);
