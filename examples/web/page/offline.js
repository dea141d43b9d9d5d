// Serves the newest files, or the files of the last visit without a network.

const CACHE = 'char-web';
// The files for the CPU. The module for WebGPU is cached after its first use.
const FILES = [
  './',
  'style.css',
  'page.js',
  'chart.js',
  'worker.js',
  'char_web.js',
  'char_web_bg.wasm',
];

addEventListener('fetch', (event) => {
  const { request } = event;
  if (request.method !== 'GET' || new URL(request.url).origin !== location.origin) return;
  event.respondWith(
    (async () => {
      const cache = await caches.open(CACHE);
      try {
        const answer = await fetch(request);
        if (answer.ok) await cache.put(request, answer.clone());
        return answer;
      } catch (error) {
        const kept = await cache.match(request);
        if (kept) return kept;
        throw error;
      }
    })(),
  );
});

addEventListener('install', (event) => {
  skipWaiting();
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)));
});
addEventListener('activate', (event) => event.waitUntil(clients.claim()));
